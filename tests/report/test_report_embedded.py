"""Embedded pages show everything where nothing else is loaded, such as the viewer of JupyterLab."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.report_rows import BREAKOUT, HOSTILE, small_result

from pairframe.report.html import write_report
from pairframe.report.html.embed import embed_pictures
from pairframe.results import ResultStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# As JupyterLab shows a trusted page: a blob in a frame that may run scripts and has no origin.
VIEWER = """<iframe sandbox="allow-scripts" width="1200" height="800"></iframe><script>
const page = new Blob([PAGE], { type: "text/html" });
document.querySelector("iframe").src = URL.createObjectURL(page);</script>"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedded")
    store = ResultStore(folder)
    store.commit([store.write_maps(small_result(), name) for name in ("one", HOSTILE, BREAKOUT)])
    write_report(folder, embed=True)
    return folder


def test_no_page_names_a_picture_beside_it(out: Path) -> None:
    pages = [out / "report.html", *(out / "pairs").glob("*.html")]
    assert len(pages) == 4
    for path in pages:
        html = path.read_text()
        assert html.count('src="data:image/png;base64,') >= 3
        assert not re.search(r'(src|href)="[^"]+\.(png|gif)"', html)
        assert HOSTILE not in html


def test_links_of_the_report_lead_to_its_own_pictures(out: Path) -> None:
    html = (out / "report.html").read_text()
    assert not re.search(r'href="(?!#)', html)
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, flags=re.DOTALL)[1])  # type: ignore[index]
    assert data["embedded"] is True
    for page in data["pages"]:
        assert f'id="{page}"' in html


def test_a_report_without_it_has_pictures_beside_it(out: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(out, again)
    write_report(again)
    assert not re.search(r'src="data:', (again / "report.html").read_text())
    (page, *_) = (again / "pairs").glob("*.html")
    assert f'src="{page.stem}/summary.png"' in page.read_text()


def test_a_name_that_looks_like_a_picture_stays_text(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    for html in ('src="&#34;secret.png"', "src=&#34;secret.png&#34;", 'src="../secret.png"', 'src="missing.png"'):
        assert embed_pictures(html, tmp_path) == html


def test_in_a_frame_without_an_origin_pictures_are_shown_and_links_work(
    out: Path, tmp_path: Path, browser: Browser
) -> None:
    viewer = tmp_path / "viewer.html"
    page_as_text = json.dumps((out / "report.html").read_text()).replace("<", "\\u003c")
    viewer.write_text(VIEWER.replace("PAGE", page_as_text))
    view = browser.new_page()
    complaints: list[str] = []
    view.on("console", lambda message: complaints.append(message.text))
    view.on("requestfailed", lambda request: complaints.append(request.url[:100]))
    view.goto(viewer.as_uri())
    frame = view.frames[1]
    frame.wait_for_selector("html[data-ready]")
    widths = frame.eval_on_selector_all("img", "(all) => all.map((one) => one.naturalWidth)")
    assert len(widths) >= 6
    assert all(width > 0 for width in widths)
    before = frame.evaluate("() => scrollY")
    frame.get_by_role("link", name="one", exact=True).click()
    frame.wait_for_function("(before) => scrollY > before", arg=before)
    view.close()
    assert complaints == []
