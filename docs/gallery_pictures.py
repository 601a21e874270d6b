"""The gallery's pictures are the files that its scripts write: our figures are values, no global state knows them."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

# Pixels of one panel in the list of examples.
THUMBNAIL = (400, 280)
_PANELS: dict[str, Path] = {}
_THUMBNAIL_ALT = re.compile(r"thumb/sphx_glr_(plot_\w+)_thumb\.png\n\s+:alt:(?=\n)")


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Take the pictures that a cell of a script has left beside it; return the text that shows them."""
    from sphinx_gallery.scrapers import figure_rst

    script = Path(block_vars["src_file"])
    shown = []
    for picture in sorted([*script.parent.glob("*.png"), *script.parent.glob("*.gif")]):
        place = Path(next(block_vars["image_path_iterator"])).with_suffix(picture.suffix)
        shutil.move(picture, place)
        shown.append(str(place))
    if shown and script.stem not in _PANELS:
        _save_panel(script, block_vars["example_globals"])
    return figure_rst(shown, gallery_conf["src_dir"], _title(script))


def show_one_panel(app: Any) -> None:
    """Replace the thumbnails of whole figures, on which nothing can be seen, by one panel of each."""
    from PIL import Image, ImageOps

    for stem, panel in _PANELS.items():
        for thumbnail in Path(app.srcdir).glob(f"generated/gallery/**/thumb/sphx_glr_{stem}_thumb.png"):
            ImageOps.pad(Image.open(panel).convert("RGB"), THUMBNAIL, color="white").save(thumbnail)
    for index in Path(app.srcdir).glob("generated/gallery/**/index.rst"):
        text = index.read_text()
        described = _THUMBNAIL_ALT.sub(
            lambda found: f"{found[0]} one panel of: {_title_of(app.srcdir, found[1])}", text
        )
        if described != text:
            index.write_text(described)


def _title_of(docs: str, stem: str) -> str:
    (script,) = Path(docs).glob(f"generated/examples/*/{stem}.py")
    return _title(script)


def _title(script: Path) -> str:
    """The first line of a script's docstring, which says what its picture shows."""
    docstring = ast.get_docstring(ast.parse(script.read_text())) or script.stem
    return docstring.strip().splitlines()[0].replace("``", "")


def _save_panel(script: Path, names: dict[str, Any]) -> None:
    """Keep the first panel of a script's last figure."""
    from matplotlib.figure import Figure

    figures = [thing for thing in names.values() if isinstance(thing, Figure) and thing.axes]
    if not figures:
        return
    figure = figures[-1]
    ax = figure.axes[0]
    figure.canvas.draw()
    box = ax.get_tightbbox().transformed(figure.dpi_scale_trans.inverted()).padded(0.03)
    place = script.with_name(f"{script.stem}_panel.jpg")  # not a png, which would be taken for a picture of the script
    figure.savefig(place, dpi=110, bbox_inches=box)
    _PANELS[script.stem] = place
