"""The site builds without a warning, needs no network, knows every public name, and its pictures are those of its scripts."""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
FIGURES = sorted(path for path in (ROOT / "docs/figures").glob("*.py") if path.name != "painting.py")
API = runpy.run_path(str(ROOT / "docs/public_names.py"))
LOADED = re.compile(r"""<(?:script|img|iframe|video|source|link)\b[^>]*?\b(?:src|href)\s*=\s*["']([^"']+)""")
CSS_LOADED = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
TWO_MINUTES_AND_MORE = 600
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MOST_API_PX = 15_000  # high: a longer page of the API is not read


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a copy, as the build writes beside its sources."""
    copy = tmp_path_factory.mktemp("project")
    unwanted = shutil.ignore_patterns("_build", "generated", "__pycache__")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=unwanted)
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / page, copy)
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", "docs", "docs/_build"]
    environment = os.environ | {"PYTHONWARNINGS": "default"}
    done = subprocess.run(
        words, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=TWO_MINUTES_AND_MORE
    )
    assert done.returncode == 0, done.stderr
    return copy / "docs/_build"


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = LOADED.findall(page.read_text())
        assert [address for address in loaded if "//" in address and not address.startswith("data:")] == [], page.name
    for sheet in site.rglob("*.css"):
        loaded = [address for pair in CSS_LOADED.findall(sheet.read_text()) for address in pair if address]
        assert [address for address in loaded if "//" in address and not address.startswith("data:")] == [], sheet.name


@pytest.mark.slow
def test_every_link_and_picture_of_the_site_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        for address in re.findall(r"""\b(?:src|href)\s*=\s*["']([^"'#?]+)""", page.read_text()):
            if not re.match(r"[a-z]+:", address):
                assert (page.parent / address).exists(), f"{page.name} leads to {address}"


@pytest.mark.slow
def test_every_public_name_has_its_entry(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    entries = {name for kind in inventory.data.values() for name in kind}
    front = set(import_module("pairframe").__all__)
    missing = {f"pairframe.{name}" for name in front - {"__version__"}} - entries
    for module_name in API["documented_modules"]():
        module = import_module(module_name)
        things = {name: getattr(module, name) for name in set(API["names_of"](module_name)) - front}
        # Constants and names of types have no docstring, and so no entry.
        names = {name for name, thing in things.items() if inspect.isroutine(thing) or inspect.isclass(thing)}
        missing |= {f"{module_name}.{name}" for name in names} - entries
    assert missing == set()


@pytest.mark.slow
def test_the_gallery_shows_every_script_with_a_picture(site: Path) -> None:
    for script in (ROOT / "examples").glob("plot_*.py"):
        (path,) = (site / "generated/gallery").glob(f"*/{script.stem}.html")
        page = path.read_text()
        assert f"sphx_glr_{script.stem}_001" in page
        alts = re.findall(rf'<img src="[^"]*sphx_glr_{script.stem}_001[^>]*alt="([^"]*)"', page)
        assert alts
        assert min(map(len, alts)) > 10
    assert not list((ROOT / "examples").glob("*.png"))
    thumbnails = re.findall(r"<img[^>]*_thumb[^>]*>", (site / "generated/gallery/index.html").read_text())
    assert len(thumbnails) >= len(list((ROOT / "examples").glob("plot_*.py")))
    assert all('alt="one panel of: ' in thumbnail for thumbnail in thumbnails)


@pytest.mark.slow
def test_every_page_describes_itself_to_search_engines(site: Path) -> None:
    for page in [*site.glob("*.html"), *site.glob("api/*.html"), *site.glob("generated/gallery/*/plot_*.html")]:
        if page.name not in ("genindex.html", "search.html", "py-modindex.html"):
            (words,) = re.findall(
                r'<meta (?:content="([^"]+)" )?name="description"(?: content="([^"]+)")?', page.read_text()
            )
            assert 20 < len("".join(words)) < 250, page.name


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_every_page_fits_its_window_and_the_browser_does_not_complain(site: Path, width: int) -> None:
    from playwright.sync_api import sync_playwright

    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        view = browser.new_page(viewport={"width": width, "height": 900})
        view.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        view.on("pageerror", lambda error: complaints.append(str(error)))
        view.on("requestfailed", lambda request: complaints.append(request.url))
        for page in [*site.glob("*.html"), *site.glob("api/*.html"), site / "generated/gallery/index.html"]:
            view.goto(page.as_uri())
            page_px, height_px = view.evaluate(
                "() => [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
            )
            assert page_px <= width, page.name
            wide = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
            assert view.eval_on_selector_all("article pre", wide) == 0, page.name
            assert width < 1280 or page.parent.name != "api" or height_px < MOST_API_PX, page.name
            assert view.eval_on_selector_all("article img", "(all) => all.filter((one) => !one.alt).length") == 0, (
                page.name
            )
        browser.close()
    assert complaints == []


def test_every_example_is_in_a_group_of_the_gallery() -> None:
    text = (ROOT / "docs/conf.py").read_text()
    groups = ast.literal_eval(re.search(r"^GALLERY = (\{.*?^\})", text, flags=re.DOTALL | re.MULTILINE)[1])
    named = [f"plot_{name}" for _, names in groups.values() for name in names]
    assert sorted(named) == sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py"))


@pytest.mark.parametrize(
    "word",
    [
        *("drift", "registration", "time-lapse", "3-D", "earth mover's distance", "growth", "cite", "Excel"),
        "Fiji",
        "tracker",
    ],
)
def test_the_words_that_people_search_for_are_in_the_questions_or_the_glossary(word: str) -> None:
    assert word in (ROOT / "docs/faq.md").read_text() + (ROOT / "docs/glossary.md").read_text()


def test_the_citation_names_this_version() -> None:
    from pairframe import __version__

    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text()
    assert (ROOT / "docs/cite.md").read_text().count(__version__) == 3


@pytest.mark.parametrize("script", FIGURES, ids=lambda script: script.stem)
def test_a_picture_of_the_concepts_is_what_its_script_draws(script: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", script], cwd=tmp_path, check=True, capture_output=True)
    (drawn,) = tmp_path.glob("*.png")
    pictures = [
        np.asarray(Image.open(path).convert("RGB"), dtype=float) for path in (drawn, ROOT / "docs/images" / drawn.name)
    ]
    assert pictures[0].shape == pictures[1].shape
    assert np.abs(pictures[0] - pictures[1]).mean() < 1.0


def test_the_pages_show_every_picture_that_is_drawn_for_them() -> None:
    pages = [page.read_text() for page in (ROOT / "docs").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"images/(concept_\w+)\.png", page)}
    assert shown == {f"concept_{script.stem}" for script in FIGURES}


def test_every_picture_in_the_docs_is_shown_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.rst")]
    shown = {name for page in pages for name in re.findall(r"images/([\w.]+)", page.read_text())}
    assert shown == {path.name for path in (ROOT / "docs/images").iterdir()}
