"""Draw which folder of the package imports from which: ``python docs/import_graph.py``.

Writes ``docs/import_graph.json``, how many modules of a folder import from another (1-2, 3-6, or 7 and more, so that not
every import changes it), and ``docs/images/import_graph.svg``, the same as a picture.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "src" / "pairframe"
DATA, PICTURE = DOCS / "import_graph.json", DOCS / "images" / "import_graph.svg"
PALE, BLUE = "#B9C4D6", "#3B6FB6"
# In the order of the data flow, with the step that the folder takes. The modules below all folders (errors, types and the
# like) are left out: every folder imports them.
STEPS = {
    "parallel": "processes, threads, memory",
    "masks": "read and check masks",
    "alignment": "move a target onto a source",
    "frame": "put a pair on one grid",
    "problem": "state the problem",
    "tiled": "differentiable Sinkhorn",
    "engines": "solve",
    "maps": "read maps from the solution",
    "losses": "compare images in training",
    "exact": "exact transport",
    "results": "keep and save results",
    "pipeline": "one comparison, step by step",
    "regions": "flows between labels, lineage",
    "axis": "numbers along the body",
    "analysis": "statistics of groups",
    "cohort": "repeat for many pairs",
    "report": "figures and pages",
    "testing": "known answers, engine suite",
    "cli": "command line",
}


def folders() -> list[str]:
    """The package's folders in the order of the data flow."""
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    if found != set(STEPS):
        raise SystemExit(f"add to or remove from STEPS: {', '.join(sorted(found ^ set(STEPS)))}")
    return list(STEPS)


def imported_folders(path: Path, names: set[str]) -> set[str]:
    """The folders that a module imports from, also inside functions and for type checking."""
    modules = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    parts = [module.split(".") for module in modules]
    return {part[1] for part in parts if part[0] == "pairframe" and len(part) > 1} & names


def import_graph() -> dict[str, dict[str, str]]:
    """By importing folder, how many of its modules import from each other folder."""
    names = folders()
    graph = {}
    for name in names:
        found = Counter[str]()
        for path in (PACKAGE / name).rglob("*.py"):
            found.update(imported_folders(path, set(names)) - {name})
        graph[name] = {other: _size(found[other]) for other in names if found[other]}
    return graph


def _size(count: int) -> str:
    return "1-2" if count <= 2 else "3-6" if count <= 6 else "7+"


def draw(graph: dict[str, dict[str, str]]) -> Any:
    """Folders down the diagonal in the order of the data flow.

    From an importing folder a line leads left along its row, and up into the folder that it imports from; the disc at the
    corner grows with the number of modules. An import against the order would be a corner above the diagonal.
    """
    from matplotlib.figure import Figure

    names = list(graph)
    figure = Figure(figsize=(0.62 * len(names) + 2.0, 0.46 * len(names) + 0.2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.9, len(names) + 2.7), ylim=(len(names) - 0.4, -0.6))
    axes.axis("off")
    sizes = {"1-2": 5, "3-6": 9, "7+": 14}
    for row, name in enumerate(names):
        columns = {names.index(other): size for other, size in graph[name].items()}
        if columns:
            axes.plot([min(columns), row], [row, row], color=PALE, lw=1.0, zorder=1)
        for column, size in columns.items():
            arrow = {"arrowstyle": "-|>", "color": PALE, "lw": 1.0, "shrinkB": 9}
            axes.annotate("", (column, column), (column, row), arrowprops=arrow, zorder=1)
            axes.plot(column, row, "o", ms=sizes[size], color=BLUE, zorder=3)
    for row, name in enumerate(names):
        box = {"boxstyle": "round,pad=0.25", "fc": "#F3E3D3", "ec": "#B65C3B"}
        axes.text(row, row, name, ha="center", va="center", fontsize=10, fontweight="bold", bbox=box, zorder=5)
        axes.text(row + 0.85, row, STEPS[name], va="center", fontsize=9, color="#444444")
    for row, (size, points) in enumerate(sizes.items()):
        axes.plot(len(names) - 3, row + 0.3, "o", ms=points, color=BLUE)
        axes.text(len(names) - 2.5, row + 0.3, f"{size.replace('-', ' to ')} modules", va="center", fontsize=9)
    return figure


def main() -> None:
    """Write the data and the picture."""
    import matplotlib as mpl

    graph = import_graph()
    DATA.write_text(json.dumps(graph, indent=1) + "\n")
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "pairframe", "font.family": "sans-serif"}):
        draw(graph).savefig(PICTURE, metadata={"Date": None, "Description": json.dumps(graph)})


if __name__ == "__main__":
    main()
