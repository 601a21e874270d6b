"""Compressed TIFFs, as microscopes and libtiff write them, are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile

from pairframe import read_mask


@pytest.mark.parametrize("compression", ["lzw", "zlib", "packbits", "zstd"])
def test_a_compressed_tiff_is_read(tmp_path: Path, compression: str) -> None:
    mask = np.zeros((40, 50), np.uint8)
    mask[5:20, 7:30] = 255
    tifffile.imwrite(tmp_path / "mask.tif", mask, compression=compression)
    np.testing.assert_array_equal(read_mask(tmp_path / "mask.tif").values, mask > 0)
