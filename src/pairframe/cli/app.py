"""The `pairframe` command: each subcommand loads what it needs when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pairframe import __version__
from pairframe.errors import PairframeError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Compare image masks by unbalanced optimal transport."
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pairframe {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Compare image masks by unbalanced optimal transport."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write to; made when missing.")] = Path("pairframe-demo"),
) -> None:
    """Compare synthetic embryos, tiny against huge and two frames of growth, and draw what was found."""
    from pairframe.cli.demo import run_demo

    run_demo(out)


@app.command()
def doctor(
    size: Annotated[
        str, typer.Option(help="Work grid, HEIGHTxWIDTH in pixels, for which the smallest usable epsilon is told.")
    ] = "256x576",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    test: Annotated[bool, typer.Option(help="Hold each engine against the oracle on a small problem.")] = True,
) -> None:
    """Tell which engines work here, their versions, devices and limits, and test each of them for a second."""
    from pairframe.cli.doctor import run_doctor

    run_doctor(size, as_json, test)


def main() -> None:
    """Run the command line; a pairframe error is one clear message and exit code 2, never a traceback."""
    try:
        app()
    except PairframeError as error:
        typer.echo(f"pairframe: {error}", err=True)
        sys.exit(2)
