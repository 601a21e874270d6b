"""The core needs no extra; whatever needs one names it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import tifffile

import pairframe as pf
from pairframe.errors import MissingExtraError
from pairframe.results import ResultStore

ROOT = Path(__file__).parents[2]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MASK = np.zeros((40, 50), np.uint8)
MASK[5:20, 7:30] = 255
CORE_ALONE = """
import sys
for module in ("xarray", "imagecodecs", "ot", "jax", "ott", "torch", "triton", "dask", "distributed", "napari"):
    sys.modules[module] = None  # as if it were not installed
from pairframe.cli import main
sys.argv = ["pairframe", *sys.argv[1:]]
main()
"""


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("xarray", "imagecodecs"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("without_extras")
def test_datasets_name_the_extra_that_they_need(tmp_path: Path) -> None:
    result = pf.compare(MASK > 0, MASK > 0)
    result.save(tmp_path / "out")
    for call in (result.to_xarray, ResultStore(tmp_path / "out").open_maps):
        with pytest.raises(MissingExtraError, match=r"xarray to be installed.* pip install 'pairframe\[xarray\]'"):
            call()


@pytest.mark.parametrize("compression", ["lzw", "jpeg", "zstd", "webp"])
def test_a_compression_names_the_extra_that_it_needs(compression: str, tmp_path: Path) -> None:
    pixels = np.repeat(MASK[..., None], 3, axis=-1) if compression == "webp" else MASK
    tifffile.imwrite(tmp_path / "mask.tif", pixels, compression=compression)
    script = "import sys; sys.modules['imagecodecs'] = None; import pairframe as pf; pf.read_mask('mask.tif')"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert re.search(r"MissingExtraError: .*compression of 'mask.tif' needs.*pip install 'pairframe\[codecs\]'", last)


@pytest.mark.parametrize("compression", [None, "zlib", "lzma", "packbits"])
def test_common_tiffs_need_no_extra(compression: str | None, tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "mask.tif", MASK, compression=compression, predictor=None)
    script = "import sys; sys.modules['imagecodecs'] = None; import pairframe as pf; print(pf.read_mask('mask.tif').values.sum())"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) == np.count_nonzero(MASK)


def test_the_demo_needs_the_core_alone(tmp_path: Path) -> None:
    words = [sys.executable, "-c", CORE_ALONE, "demo", "--quiet"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pairframe-demo/report.html").exists()


def test_all_names_every_extra_but_tools_and_peers() -> None:
    extras = METADATA["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(re.findall(r"\w+", everything)) - {"pairframe"} == {*extras} - {"all", "bench", "dev", "napari"}
    page = (ROOT / "docs/start.md").read_text()
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", page, flags=re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == {*extras} - {"all", "bench", "dev"}
