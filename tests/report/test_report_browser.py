"""The report in a real browser: it works from a folder, asks for nothing outside it, and strangers' names do no harm."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.report_rows import BREAKOUT, HOSTILE, LONG, grouped_cohort, small_result, synthetic_rows

from pairframe.analysis import analyze
from pairframe.report.html import write_analysis, write_report
from pairframe.report.html.pictures import THUMBNAIL_BYTES
from pairframe.report.html.report_page import report_page
from pairframe.results import ResultStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOAD_AND_SORT_MS = 2000
SORT_FOUR_TIMES = """() => {
    const started = performance.now();
    for (const name of ["percent_created", "percent_created", "", "series"]) {
        [...document.querySelectorAll("#pairs thead button")].find((button) => button.dataset.column === name).click();
        document.body.getBoundingClientRect();  // the layout is part of it
    }
    return performance.now() - started;
}"""


@dataclass
class Watched:
    """A page, and everything it complained about or asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def open(self, path: Path) -> Page:
        self.page.goto(path.resolve().as_uri())
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def column(self, name: str) -> list[str]:
        """The cells of a column by its heading, top to bottom."""
        return self.page.evaluate(
            """(name) => {
                const heads = [...document.querySelectorAll("#pairs thead th")];
                const at = heads.findIndex((head) => head.textContent.startsWith(name));
                return [...document.querySelectorAll("#pairs tbody tr")].map((row) => row.cells[at].textContent);
            }""",
            name,
        )


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    found = Watched(context.new_page())
    page = found.page
    page.on("console", lambda message: found.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (found.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("requestfailed", lambda request: found.complaints.append(f"failed: {request.url[:200]}"))
    page.on("request", lambda request: found.addresses.append(request.url))
    yield found
    context.close()
    assert not found.complaints
    assert all(address.startswith(("file://", "data:image/png")) for address in found.addresses)


def test_a_click_on_a_heading_sorts_and_another_turns_it_round(watched: Watched, report_cohort: Path) -> None:
    page = watched.open(report_cohort / "report.html")
    heading = page.locator("#pairs thead th", has_text="mean displacement")
    button = heading.get_by_role("button")
    button.click()
    numbers = watched.column("mean displacement")
    assert heading.get_attribute("aria-sort") == "descending"
    values = [float(text) for text in numbers if text != "–"]
    assert len(values) == 6
    assert values == sorted(values, reverse=True)
    assert numbers[6:] == ["–", "–"]  # what is missing is last
    button.press("Enter")  # and by keyboard
    numbers = watched.column("mean displacement")
    assert [float(text) for text in numbers[:6]] == sorted(values)
    assert numbers[6:] == ["–", "–"]


def test_text_status_and_group_filter_the_rows(watched: Watched, report_cohort: Path) -> None:
    page = watched.open(report_cohort / "report.html")
    count = page.locator("#count")
    assert count.inner_text() == "8 pairs"
    page.fill("#text-filter", "DISC.tif@2")
    page.locator("#count", has_text="2 of 8 pairs").wait_for()
    assert watched.column("pair") == ["disc 1", "disc 2"]
    page.click("#clear-filters")
    assert count.inner_text() == "8 pairs"
    page.select_option("#status-filter", "failed")
    assert set(watched.column("status")) == {"failed"}
    page.select_option("#status-filter", "")
    page.select_option("#group-filter", "=wild type")
    assert set(watched.column("group")) == {"wild type"}
    page.fill("#text-filter", "no such pair")
    page.locator("#count", has_text="0 of 8 pairs").wait_for()


def test_a_click_on_a_row_opens_its_page_and_links_lead_on_and_back(watched: Watched, report_cohort: Path) -> None:
    page = watched.open(report_cohort / "report.html")
    page.locator("#pairs tbody tr", has_text="disc 1").locator("td.number").last.click()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("h1").inner_text() == "disc 1"
    page.locator("nav [rel=next]").click()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("h1").inner_text() == "disc 2"
    page.get_by_text("All pairs").click()
    page.wait_for_selector("#pairs tbody tr")
    assert page.title().startswith("Eight pairs")


def test_the_slider_goes_from_source_to_target_in_every_mode(watched: Watched, tmp_path: Path) -> None:
    small_result().save(tmp_path, pair_id="slider")
    write_report(tmp_path)
    (path,) = (tmp_path / "pairs").glob("*.html")
    page = watched.open(path)
    opacity = (
        "[...['source', 'target']].map((name) => getComputedStyle(document.querySelector('#layer-' + name)).opacity)"
    )
    assert page.evaluate(opacity) == ["0.5", "0.5"]
    slider = page.locator("#slider")
    slider.focus()
    slider.press("Home")
    assert page.evaluate(opacity) == ["1", "0"]
    slider.press("End")
    assert page.evaluate(opacity) == ["0", "1"]
    page.check("input[value=wipe]")
    assert page.locator("#edge").is_visible()
    assert "100%" in page.evaluate("document.querySelector('#layer-source').style.clipPath")
    page.check("input[value=morph]")
    film = page.locator("#film img")
    assert film.is_visible()
    # The last frame of the film lies on the stage.
    bottom = page.evaluate(
        "[...document.querySelectorAll('#film img, #stage')].map((node) => node.getBoundingClientRect().bottom)"
    )
    np.testing.assert_allclose(bottom[0], bottom[1], atol=4)
    page.check("#layers input[name=created]")
    assert page.locator("#layer-created").is_visible()
    assert page.evaluate(
        "[...document.images].every((image) => !image.src.includes('.png') || image.loading === 'lazy' || image.naturalWidth > 0)"
    )


def test_hostile_and_endless_names_do_no_harm(watched: Watched, report_cohort: Path) -> None:
    page = watched.open(report_cohort / "report.html")
    assert HOSTILE in watched.column("pair")
    assert page.locator("img[src=x]").count() == 0
    page.select_option("#colour", "group")
    for row in (HOSTILE, LONG):
        name = page.locator("#pairs tbody a", has_text=row[:60])
        assert name.get_attribute("title") == row
        assert name.bounding_box()["width"] < 400
        assert name.bounding_box()["height"] < 40
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in (HOSTILE, LONG):
        page = watched.open(report_cohort / "report.html")
        page.locator("#pairs tbody a", has_text=name[:60]).click()
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("document.querySelector('h1').textContent") == name
        assert page.locator("img[src=x]").count() == 0
        assert "harmed" not in page.evaluate("document.title").replace("'harmed'", "")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("h1").bounding_box()["height"] < 150


def test_plots_show_the_chosen_quantity_of_the_chosen_rows_by_group(watched: Watched, report_cohort: Path) -> None:
    page = watched.open(report_cohort / "report.html")
    points = page.locator("#series-plot [data-row]")
    assert points.count() == 6
    page.select_option("#quantity", "mean_displacement_um")
    assert "mean displacement" in page.locator("#series-plot svg").get_attribute("aria-label")
    assert page.locator("#series-plot [data-row][fill=none]").count() == 1  # the unfinished one is hollow
    page.fill("#text-filter", "disc.tif")
    page.locator("#count", has_text="3 of 8 pairs").wait_for()
    assert points.count() == 3
    assert page.locator("#series-plot polyline").count() == 1
    page.select_option("#colour", "")
    assert page.locator("#histogram [data-row]").count() == 3  # so few are points, not bars
    assert page.locator("#histogram-caption").inner_text().startswith("Each point is one pair")


def test_a_pair_without_a_time_is_in_the_table_and_in_no_statistic(watched: Watched, tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    labels: list[dict[str, Any]] = [{"group": "growing", "series": "embryo", "frame": k} for k in range(3)]
    labels.append({"group": "showcase", "series": None, "frame": None})
    rows = [store.write_maps(small_result(2.0 + k), f"pair {k}", extra=extra) for k, extra in enumerate(labels)]
    store.commit(rows)
    page = watched.open(write_report(tmp_path, max_figures=0))
    assert page.locator("#pairs tbody tr").count() == 4
    assert "series" not in page.locator("#pairs thead").inner_text()  # says nothing that the group does not
    tiles = page.locator(".tiles li", has_text="median").all_inner_texts()
    assert len(tiles) == 3
    assert all("3 pairs with a frame" in tile for tile in tiles)
    assert page.locator("#plot-count").inner_text() == "3 pairs; 1 without frame, not drawn"
    assert page.locator("#legend li").all_inner_texts() == ["growing"]
    assert page.locator("#histogram [data-row]").count() == 3
    page.select_option("#along", "")
    assert page.locator("#plot-count").inner_text() == "4 pairs"
    assert page.locator("#legend li").all_inner_texts() == ["growing", "showcase"]


def test_many_values_are_bars(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(_with_heaviest_thumbnails(synthetic_rows(60)), encoding="utf-8")
    page = watched.open(tmp_path / "report.html")
    assert page.locator("#histogram rect").count() > 5
    assert page.locator("#histogram [data-row]").count() == 0


@pytest.mark.parametrize("width", [1280, 1024, 390])
def test_a_table_is_whole_or_says_that_it_goes_on(width: int, watched: Watched, report_cohort: Path) -> None:
    watched.page.set_viewport_size({"width": width, "height": 900})
    page = watched.open(report_cohort / "report.html")
    box, hint = page.locator("#pairs-scroll"), page.locator("#more-columns")

    def is_cut() -> bool:
        return bool(box.evaluate("(box) => box.scrollWidth > box.clientWidth + 2"))

    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert hint.is_visible() == is_cut()
    for choice in page.locator("#choices input").all():
        choice.evaluate("(box) => { if (!box.checked) box.click(); }")
    assert is_cut()
    assert hint.is_visible()
    assert "more" in (box.get_attribute("class") or "")
    box.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
    page.locator("#pairs-scroll:not(.more)").wait_for()


def test_columns_can_be_chosen(watched: Watched, report_cohort: Path) -> None:
    page = watched.open(report_cohort / "report.html")
    assert "blur" not in page.locator("#pairs thead").inner_text()
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="blur (µm)", exact=True).check()
    assert watched.column("blur")[0] == "4"


def test_one_pair_has_no_filters_and_no_plots(watched: Watched, tmp_path: Path) -> None:
    small_result().save(tmp_path, pair_id="alone")
    page = watched.open(write_report(tmp_path, max_figures=0))
    assert page.locator("#filters").is_hidden()
    assert page.locator("#plots-section").is_hidden()
    assert page.get_by_text("Open the page of this pair").is_visible()


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of an analysis whose groups and units have strangers' names, beside the report."""
    out = tmp_path_factory.mktemp("analysed")
    store = grouped_cohort(out)
    write_report(out, max_figures=0)
    page = write_analysis(analyze(store, reference=HOSTILE, max_distance_masks=6), out)
    write_report(out, max_figures=0)  # now with a link to it
    return page


def test_the_analysis_shows_its_tables_and_pictures_and_a_heading_sorts(watched: Watched, analysed: Path) -> None:
    page = watched.open(analysed)
    pictures = page.evaluate("[...document.images].map((image) => [image.getAttribute('src'), image.naturalWidth])")
    names = {Path(address).stem for address, _ in pictures}
    assert names == {"hotspots_0", "mean_velocity", "mean_created", "mean_destroyed", "deviations", "distances"}
    assert all(width > 300 for _, width in pictures)
    scalars = page.locator("table.sortable").first
    assert scalars.locator("tbody tr").count() > 20
    assert "mean displacement to the right" in scalars.inner_text()
    assert "_" not in scalars.locator("tbody").inner_text()
    for kind, sign in (("ascending", 1), ("descending", -1)):
        heading = scalars.locator("thead th").nth(6)
        heading.get_by_role("button").click()
        assert heading.get_attribute("aria-sort") == kind
        shown = scalars.locator("tbody tr td:nth-child(7)").evaluate_all("(cells) => cells.map((c) => c.dataset.value)")
        values = [float(text) for text in shown if text != "nan"]
        assert len(values) > 10
        assert values == sorted(values, reverse=sign < 0)


def test_the_analysis_leads_to_the_pages_of_its_pairs_and_back(watched: Watched, analysed: Path) -> None:
    page = watched.open(analysed)
    page.locator("details summary").click()
    link = page.locator("details tbody a").first
    name = link.get_attribute("title")
    link.click()
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("document.querySelector('h1').textContent") == name
    page.get_by_text("All pairs").click()
    page.wait_for_selector("#pairs tbody tr")
    page.locator("a[href='analysis.html']").first.click()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("h1").inner_text().endswith("analysis")


def test_hostile_groups_and_units_do_no_harm_in_the_analysis(watched: Watched, analysed: Path) -> None:
    page = watched.open(analysed)
    text = page.evaluate("document.body.textContent")
    assert HOSTILE in text
    assert BREAKOUT[:100] in text
    assert page.locator("img[src=x]").count() == 0
    assert page.locator("script").count() == 1
    assert page.evaluate("document.title").endswith("pairframe analysis")
    page.locator("details summary").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert all(box["height"] < 200 for box in (h.bounding_box() for h in page.locator("h1, h2").all()))


def test_two_thousand_pairs_load_and_sort_in_two_seconds(watched: Watched, tmp_path: Path) -> None:
    cohort = synthetic_rows(2000)
    path = tmp_path / "report.html"
    path.write_text(_with_heaviest_thumbnails(cohort), encoding="utf-8")
    assert path.stat().st_size < 30e6
    for _ in range(3):  # the machine may be busy with something else, but not three times
        page = watched.open(path)
        loaded_ms = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        sorted_ms = page.evaluate(SORT_FOUR_TIMES) / 4
        if loaded_ms + sorted_ms < LOAD_AND_SORT_MS:
            break
    megabytes = path.stat().st_size / 1e6
    print(f"2000 pairs, {megabytes:.0f} MB: loaded in {loaded_ms:.0f} ms, sorted in {sorted_ms:.0f} ms")
    assert loaded_ms + sorted_ms < LOAD_AND_SORT_MS
    assert page.locator("#pairs tbody tr").count() == 10
    names = watched.column("series")
    assert names[0] == "series 0"
    page.select_option("#page-size", "100")
    assert page.locator("#pairs tbody tr").count() == 100
    assert page.locator("#page-number").inner_text() == "page 1 of 20"
    page.click("#next")
    assert watched.column("series")[0] == "series 10"
    page.click("#previous")
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="reach (µm)", exact=True).check()
    assert {"∞", "−∞"} < set(watched.column("reach"))
    assert ">99.999" in watched.column("created")  # nearly all is not called all


def _with_heaviest_thumbnails(cohort: Any) -> str:
    noise = np.random.default_rng(0).bytes(THUMBNAIL_BYTES)
    png = base64.b64encode(_png(noise)).decode()
    pictures = [f"data:image/png;base64,{png}"] * len(cohort.rows)
    return report_page(cohort, "Two thousand", set(), pictures, {}, made_at="today", has_figures=False)


def _png(noise: bytes) -> bytes:
    import io

    from PIL import Image

    side = 55  # three bytes a pixel that do not compress: just below the limit
    content = io.BytesIO()
    Image.frombytes("RGB", (side, side), noise[: 3 * side * side]).save(content, format="PNG")
    assert 0.9 * THUMBNAIL_BYTES < len(content.getvalue()) <= THUMBNAIL_BYTES
    return content.getvalue()
