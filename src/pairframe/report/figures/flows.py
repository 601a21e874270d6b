"""Flows between labels: as a matrix of shares, and as ribbons from the source's labels to the target's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pairframe.report.style import CREATED_COLOUR, DESTROYED_COLOUR, SMALL_SIZE, TITLE_SIZE
from pairframe.types import Float

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LABELS = 24  # shown one by one; the smaller ones are shown together
_OTHERS = -2  # no label is negative but -1
_COLOURS = ("#0072B2", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#332288", "#AA4499", "#88CCEE")
_GAP = 0.012  # between bars, of the height


def flow_figure(table: pd.DataFrame, figure: Figure) -> Figure:
    """Both pictures of a flow table side by side.

    Parameters
    ----------
    table : DataFrame
        Of `pairframe.flow_table`. If it has the columns `source_name` and `target_name`, labels with a name are called so.
    """
    names = _names(table)
    left, right = figure.subplots(1, 2)
    flow_matrix(table, left, names)
    flow_ribbons(table, right, names)
    return figure


def flow_matrix(table: pd.DataFrame, ax: Axes, names: Mapping[int, str] | None = None) -> Axes:
    """Shares of each source label's mass by target label; the first row is created mass, the first column destroyed mass."""
    shown = _largest(table)
    rows, columns = _labels(shown, "source_label"), _labels(shown, "target_label")
    share: Float = np.full((len(rows), len(columns)), np.nan)
    totals = shown.groupby("source_label")["mass"].sum()
    by_target = shown.groupby("target_label")["mass"].sum()
    for source, target, mass in zip(shown["source_label"], shown["target_label"], shown["mass"], strict=True):
        whole = by_target[target] if source == 0 else totals[source]
        share[rows.index(source), columns.index(target)] = mass / whole if whole > 0 else np.nan
    drawn = ax.imshow(np.ma.masked_invalid(100 * share), cmap="Blues", vmin=0, vmax=100, aspect="auto")
    is_large = max(share.shape) > 20
    if is_large:
        ax.figure.colorbar(drawn, ax=ax, label="% of the label", shrink=0.6)
    for (row, column), value in np.ndenumerate(share):
        if value >= 0.005 and not is_large:
            colour = "white" if value > 0.6 else "black"
            ax.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize=SMALL_SIZE)
    ax.set_xticks(
        range(len(columns)), [_word(label, "destroyed", names) for label in columns], rotation=90, fontsize=SMALL_SIZE
    )
    ax.set_yticks(range(len(rows)), [_word(label, "created", names) for label in rows], fontsize=SMALL_SIZE)
    ax.set_xlabel("target label")
    ax.set_ylabel("source label")
    ax.set_title(
        "Where the mass of each source label goes, %\n(row “created”: % of each target label)", fontsize=TITLE_SIZE
    )
    return ax


def flow_ribbons(table: pd.DataFrame, ax: Axes, names: Mapping[int, str] | None = None) -> Axes:
    """Source labels on the left, target labels on the right, joined by ribbons as wide as the mass that flows.

    A target label has the colour of the source label that most of its mass comes from, as numbers of two frames need not agree.
    """
    from matplotlib.patches import PathPatch, Rectangle
    from matplotlib.path import Path

    shown = _largest(table)
    left, right = _stacked(shown, "source_label"), _stacked(shown, "target_label")
    height = max(top for side in (left, right) for _, top in side.values()) if len(shown) else 1.0
    used: dict[tuple[str, int], float] = {}
    for source, target, mass in zip(shown["source_label"], shown["target_label"], shown["mass"], strict=True):
        y0 = left[source][0] + used.get(("s", source), 0.0)
        y1 = right[target][0] + used.get(("t", target), 0.0)
        used["s", source] = used.get(("s", source), 0.0) + mass
        used["t", target] = used.get(("t", target), 0.0) + mass
        corners = [
            (0, y0),
            (0.5, y0),
            (0.5, y1),
            (1, y1),
            (1, y1 + mass),
            (0.5, y1 + mass),
            (0.5, y0 + mass),
            (0, y0 + mass),
        ]
        codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        colour = DESTROYED_COLOUR if target == 0 else _colour(source)
        ax.add_patch(PathPatch(Path(corners, codes), facecolor=colour, alpha=0.45, linewidth=0))
    main = shown.loc[shown.groupby("target_label")["mass"].idxmax()].set_index("target_label")["source_label"]
    for side, x, align, none in ((left, -0.03, "right", "created"), (right, 1.0, "left", "destroyed")):
        for label, (bottom, top) in side.items():
            colour = _colour(label) if x < 0 else DESTROYED_COLOUR if label == 0 else _colour(int(main[label]))
            ax.add_patch(Rectangle((x, bottom), 0.03, top - bottom, facecolor=colour, linewidth=0))
            if top - bottom > 0.012 * height:
                at = x - 0.01 if align == "right" else x + 0.04
                ax.text(at, 0.5 * (bottom + top), _word(label, none, names), ha=align, va="center", fontsize=SMALL_SIZE)
    ax.set_xlim(-0.3, 1.3)
    ax.set_ylim(height * 1.01, -0.01 * height)
    ax.axis("off")
    words = "" if names else "\nequal numbers need not be the same object"
    ax.set_title(f"Mass from source labels (left) to target labels (right){words}", fontsize=TITLE_SIZE)
    return ax


def _largest(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the labels of least mass joined, so that at most `MOST_LABELS` of each side are left."""
    shown = table[["source_label", "target_label", "mass"]]
    for side in ("source_label", "target_label"):
        mass = shown[shown[side] != 0].groupby(side)["mass"].sum().sort_values(ascending=False, kind="stable")
        small: list[int] = mass.index[MOST_LABELS:].tolist() if len(mass) > MOST_LABELS + 1 else []
        shown = shown.assign(**{side: shown[side].where(~shown[side].isin(small), _OTHERS)})
    return shown.groupby(["source_label", "target_label"])["mass"].sum().reset_index()


def _labels(table: pd.DataFrame, side: str) -> list[int]:
    """Created or destroyed first, then labels in rising order, then the joined and the unlabelled ones."""
    found = sorted(int(label) for label in table[side].unique())
    return [label for label in found if label == 0] + [k for k in found if k > 0] + [k for k in found if k < 0]


def _stacked(table: pd.DataFrame, side: str) -> dict[int, tuple[float, float]]:
    """Bottom and top of each label's bar."""
    masses = table.groupby(side)["mass"].sum()
    gap, at, found = _GAP * float(masses.sum()), 0.0, {}
    for label in _labels(table, side):
        found[label] = (at, at + float(masses[label]))
        at = found[label][1] + gap
    return found


def _colour(label: int) -> Any:
    return CREATED_COLOUR if label == 0 else "#BBBBBB" if label < 0 else _COLOURS[label % len(_COLOURS)]


def _names(table: pd.DataFrame) -> dict[int, str]:
    """Names of labels, and of the rest, that a table has; a dollar sign is no formula."""
    found: dict[int, str] = {}
    for side in ("source", "target"):
        if f"{side}_name" in table.columns:
            named = table[table[f"{side}_name"].notna() & (table[f"{side}_label"] != 0)]
            for label, name in zip(named[f"{side}_label"].tolist(), named[f"{side}_name"], strict=True):
                found[label] = str(name)[:24].replace("$", r"\$")
    return found


def _word(label: int, none: str, names: Mapping[int, str] | None) -> str:
    words = {-1: "unlabelled", _OTHERS: "others", **(names or {}), 0: none}
    return words.get(label, str(label))
