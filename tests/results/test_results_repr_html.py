"""What a notebook shows is small, complete and harmless."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers.results_equal import small_result, unsolved_result
from PIL import Image

import pairframe as pf
from pairframe.notices import Notice
from pairframe.results import TransportResult
from pairframe.results.repr_html import picture_png

RESULT = small_result()


def test_texts_are_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"
    html = replace(RESULT, notices=(Notice("evil", evil, evil),), backend=evil)._repr_html_()
    assert evil not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") == 3
    assert "<script" not in html
    assert html.count("<img") == 1


def test_the_picture_is_inline_and_every_line_of_the_summary_is_there() -> None:
    html = RESULT._repr_html_()
    found = re.search(r'src="data:image/png;base64,([^"]+)"', html)
    assert found
    Image.open(io.BytesIO(base64.b64decode(found.group(1)))).verify()
    assert html.count("<tr>") == len(RESULT.summary().splitlines())
    assert "http" not in html
    assert len(html) < 40_000


def test_the_picture_shows_masks_on_the_left_and_changes_on_the_right() -> None:
    result = unsolved_result()  # the target alone, and all of it created
    picture = np.asarray(Image.open(io.BytesIO(picture_png(result)))).astype(int)
    w = picture.shape[1] // 2
    left, right = picture[:, : w - 10].reshape(-1, 3), picture[:, w + 10 :].reshape(-1, 3)
    assert {(255, 255, 255), (230, 159, 0)} == set(map(tuple, left))
    assert {(255, 255, 255), (0, 158, 115)} == set(map(tuple, right))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pf.compare(np.ones((1, 1)), np.ones((1, 1))),
        lambda: pf.compare(np.ones((2, 900)), np.zeros((2, 900))),
        lambda: pf.compare(np.ones((900, 2)), np.zeros((900, 2))),
    ],
)
def test_odd_shapes_have_a_picture_too(make: object) -> None:
    result: TransportResult = make()  # type: ignore[operator]
    picture = Image.open(io.BytesIO(picture_png(result)))
    assert min(picture.size) >= 1
    assert picture.height <= 360
    assert picture.width <= 740
    assert result._repr_html_()


def test_no_plotting_library_is_needed() -> None:
    code = (
        "import sys, numpy as np, pairframe as pf\n"
        "pf.compare(np.zeros((4, 4)), np.eye(4))._repr_html_()\n"
        "assert 'matplotlib' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
