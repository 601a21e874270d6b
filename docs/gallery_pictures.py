"""The gallery's pictures are the files that its scripts write: our figures are values, no global state knows them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Take the pictures that a cell of a script has left beside it; return the text that shows them."""
    from sphinx_gallery.scrapers import figure_rst

    folder = Path(block_vars["src_file"]).parent
    shown = []
    for picture in sorted([*folder.glob("*.png"), *folder.glob("*.gif")]):
        place = Path(next(block_vars["image_path_iterator"])).with_suffix(picture.suffix)
        shutil.move(picture, place)
        shown.append(str(place))
    return figure_rst(shown, gallery_conf["src_dir"])
