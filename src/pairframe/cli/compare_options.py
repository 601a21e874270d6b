"""The options of `pairframe compare`, each declared once: name, type, default and help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from pairframe.cli.arguments import AsJson, Output, Quiet

Axis = Annotated[
    bool,
    typer.Option(
        "--axis", help="Also sum the changes along the body axis, from head to tail, and write axis_profile.csv."
    ),
]
AxisBins = Annotated[
    int | None, typer.Option(metavar="N", help="Bins along the axis, or of the radial profile; 20 by default.")
]
Radial = Annotated[
    str | None,
    typer.Option(
        metavar="centre|outline|angle",
        help="Also sum the changes around the centre of the source, by the distance from it, by the distance from the outline "
        "or by the angle, and write radial_profile.csv.",
    ),
]


@dataclass(frozen=True)
class CompareOptions:
    """What to compare, and what to write."""

    source: Annotated[
        str, typer.Argument(metavar="SRC", help="Source mask: a path, followed by @PAGE and :LABEL if needed.")
    ]
    target: Annotated[
        str,
        typer.Argument(
            metavar="TGT",
            help="Target mask on the same canvas (any with --align), e.g. labels.tif:3 or stack.tif@4:all.",
        ),
    ]
    out: Output
    pair_id: Annotated[str, typer.Option(help="Name of the pair in the store.")] = "pair"
    frame_interval_min: Annotated[
        float | None,
        typer.Option("--frame-interval", metavar="MIN", help="Minutes between the frames; adds speeds in µm/min."),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Write into a folder that is not empty. Replaces the pair of the same name, the report, summary.* and "
            "movie.gif; other pairs and files stay.",
        ),
    ] = False
    axis: Axis = False
    axis_head: Annotated[
        str | None,
        typer.Option(
            metavar="MASK",
            help="A landmark at the head, such as the yolk or an eye, on the canvas of SRC; needs --axis.",
        ),
    ] = None
    bins: AxisBins = None
    radial: Radial = None
    report: Annotated[bool, typer.Option(help="Write the report, a figure and a movie.")] = True
    regions: Annotated[
        tuple[str, str],
        typer.Option(
            metavar="SRC TGT",
            show_default=False,
            help="Label images of both masks, or own for the labels (or pieces) of a mask itself; writes the mass that flows "
            "between labels to flows.csv.",
        ),
    ] = ("", "")
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="Add a sweep over nine reaches, with a recommendation, to the page of the pair."),
    ] = False
    as_json: AsJson = False
    quiet: Quiet = False
