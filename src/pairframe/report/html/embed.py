"""Pages that hold their own pictures, for viewers that load no other files, such as that of JupyterLab."""

from __future__ import annotations

import base64
import re
from pathlib import Path

_PICTURE = re.compile(r'src="([A-Za-z0-9_/-]+\.(?:png|gif))"')
_LINK_TO_PICTURE = re.compile(r'<a href="[A-Za-z0-9_/-]+\.(?:png|gif)">')


def embed_pictures(html: str, folder: Path) -> str:
    """The page with the pictures it names, relative to its folder, as data; links to them alone go away.

    Only our own markup has such attributes: quotes in names and labels are escaped.
    """
    return _PICTURE.sub(
        lambda found: f'src="{_data(folder / found[1]) or found[1]}"', _LINK_TO_PICTURE.sub("<a>", html)
    )


def _data(path: Path) -> str | None:
    """The picture as an address; None without one."""
    if not path.is_file():
        return None
    return f"data:image/{path.suffix[1:]};base64,{base64.b64encode(path.read_bytes()).decode()}"
