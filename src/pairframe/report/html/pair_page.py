"""The page of one pair: its row and its pictures, in words a person reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pairframe.engines import Status
from pairframe.report.html.assets import render
from pairframe.report.html.cohort import PlainRow, is_euclidean, is_in_px, json_of, notices_of
from pairframe.report.html.pictures import View
from pairframe.report.html.words import (
    label_name,
    number,
    scientific,
    share,
    short_name,
    status_kind,
    status_word,
    unit,
)
from pairframe.results.schema import ABOUT_THE_PAIR, COLUMNS

_HIDDEN = {"config_json", "versions_json", "notices_json"}


@dataclass(frozen=True)
class Neighbour:
    """A link to another pair: the name of its page and of the pair."""

    page: str
    pair_id: str


def pair_page(
    row: PlainRow,
    page: str,
    view: View | None,
    damage: str | None,
    *,
    carried: tuple[str, ...] = (),
    before: Neighbour | None = None,
    after: Neighbour | None = None,
) -> str:
    """The page's HTML.

    Parameters
    ----------
    row : row
        Of the pair.
    page : str
        Name of the page and of the folder with its pictures.
    view : View, optional
        What is in its pictures; None when there are none.
    damage : str, optional
        Why the maps could not be read.
    carried : tuple of str
        Labels beside the fixed columns.
    before, after : Neighbour, optional
        The pairs before and after it in the table.
    """
    config = json_of(row["config_json"], {})
    return render(
        "pair.html",
        "pair.js",
        row=row,
        page=page,
        view=view,
        damage=damage,
        before=before,
        after=after,
        status_word=status_word(row["status"]),
        status_kind=status_kind(row["status"]),
        tiles=_tiles(row),
        certificate=_certificate(row, config),
        notices=notices_of(row),
        labels=[(label_name(name), number(row[name])) for name in carried if row[name] is not None],
        scalars=_scalars(row),
        length=unit("blur_um", lengths_in_px=is_in_px(row)),
        config=config,
        versions=json_of(row["versions_json"], {}),
        number=number,
        python_name=ascii(row["pair_id"]),
    )


def _tiles(row: PlainRow) -> list[dict[str, str]]:
    """The four numbers that people came for, each with what it must be held against."""
    in_px = is_in_px(row)
    moved, total = row["total_mass_moved"], row["M_source"]
    length, area = unit("blur_um", lengths_in_px=in_px), unit("area_source_um2", lengths_in_px=in_px)
    per_px_um2 = row["px_size_um"] ** 2 if row["px_size_um"] is not None else 1.0
    tiles = []
    for kind, of, floor in (("created", "target", "noise_floor_target"), ("destroyed", "source", "noise_floor")):
        mass, percent = row[f"total_mass_{kind}"], row[f"percent_{kind}"]
        amount = f"{number(mass * per_px_um2)} {area}" if _is_area(row) else f"{number(mass)} mass"
        below = percent is not None and row[floor] is not None and percent <= 100 * row[floor]
        tiles.append(
            {
                "kind": kind,
                "name": kind,
                "value": f"{number(percent, '%')} %" if percent is not None else "–",
                "note": f"of the {of}: {amount}",
                "floor": f"{'within the' if below else ''} noise floor {share(row[floor])}".strip(),
            }
        )
    moved_share = f"{number(100 * moved / total, '%')} %" if total else "–"
    tiles.append(
        {"kind": "moved", "name": "stayed or moved", "value": moved_share, "note": "of the source", "floor": ""}
    )
    mean = row["mean_displacement_um"]
    note = f"mean displacement; blur {number(row['blur_um'])}, reach {number(row['reach_um'])} {length}"
    tiles.append(
        {
            "kind": "way",
            "name": "displacement",
            "value": f"{number(mean)} {length}" if mean is not None else "–",
            "note": note,
            "floor": "",
        }
    )
    return tiles


def _certificate(row: PlainRow, config: dict[str, Any]) -> dict[str, str]:
    """What is proved about the numbers, in a sentence."""
    cost = unit("objective", lengths_in_px=False, is_euclidean=is_euclidean(row))
    gap, error = scientific(row["relative_gap"]), scientific(row["marginal_error"])
    if row["status"] in (Status.empty_source, Status.empty_target):
        sentence = "One mask is empty, so there is nothing to solve: the answer is exact."
    elif row["objective"] is None:
        sentence = "There is no answer: the numbers left what can be computed. Nothing is certified."
    else:
        sentence = (
            f"The total cost of moving, creating and destroying (the objective) is {number(row['objective'])} {cost}, and it is "
            f"proved that no other way is cheaper by more than {number(row['gap'])}: a relative gap of {gap}. The masses of both "
            f"masks are met to {error} (marginal error). Asked for was {scientific(config.get('tol'), 0)} or better (tol)."
        )
    solver = f"{row['backend']}, {row['dtype']}, {row['device']}; {number(row['iterations'])} kernel applications"
    if row["seconds"] is not None:
        solver += f", {number(row['seconds'])} s"
    return {"sentence": sentence, "solver": solver}


def _scalars(row: PlainRow) -> list[dict[str, str]]:
    """Every number of the row with unit and meaning."""
    in_px, euclidean = is_in_px(row), is_euclidean(row)
    return [
        {
            "name": column.name,
            "short": short_name(column.name),
            "value": number(row[column.name], column.unit),
            "exact": "" if row[column.name] is None else str(row[column.name]),
            "unit": unit(column.name, lengths_in_px=in_px, is_euclidean=euclidean),
            "meaning": column.meaning.replace("`", ""),
        }
        for column in COLUMNS
        if column not in ABOUT_THE_PAIR and column.name not in _HIDDEN
    ]


def _is_area(row: PlainRow) -> bool:
    return bool(json_of(row["config_json"], {}).get("mass_mode", "uniform") == "uniform")
