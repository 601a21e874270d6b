"""`remove_old_pages`: pages of results that are gone, with their pictures."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path


def remove_old_pages(
    folder: Path, kept: Collection[str], is_page: Callable[[str], bool], is_picture: Callable[[str], bool]
) -> None:
    """Remove pages, and folders of their pictures, that are not among those kept; files with other names stay.

    Parameters
    ----------
    is_page, is_picture : callable
        Whether a name, without ``.html``, is one that we give to pages, and one of a picture in its folder.
    """
    for path in folder.iterdir():
        name = path.name.removesuffix(".html")
        if name in kept or not is_page(name) or path.is_symlink():
            continue
        with suppress(OSError):  # a leftover does no harm
            if path.is_dir():
                for picture in path.iterdir():
                    if is_picture(picture.name):
                        picture.unlink()
                path.rmdir()
            else:
                path.unlink()
