"""Small masks on disk for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import pairframe as pf
from pairframe.testing import disc

SHAPE_HW = (40, 64)


def write_pair(folder: Path, px_size_um: float | None = 2.0) -> tuple[str, str]:
    """A disc that grows and moves, as two files; TIFFs with a pixel size, or arrays without one."""
    paths = []
    for name, centre, radius in (("source", (18, 22), 8), ("target", (20, 30), 9)):
        image = disc(SHAPE_HW, centre, radius)
        path = folder / f"{name}.{'npy' if px_size_um is None else 'tif'}"
        if px_size_um is None:
            np.save(path, image)
        else:
            pf.write_mask(pf.Mask.from_array(image, px_size_um=px_size_um), path)
        paths.append(str(path))
    return paths[0], paths[1]


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, locks aside."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
