"""The report's files: what is in them, what is not, and what stays on disk."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from helpers.archives import spoil
from helpers.report_rows import BREAKOUT, HOSTILE, LONG, SHAPE, small_result, synthetic_rows
from hypothesis import given
from hypothesis import strategies as st

import pairframe as pf
from pairframe.errors import BrokenStoreError, StoreError, StoreWriteError
from pairframe.report.figures.thumbnail import thumbnail
from pairframe.report.html import write_report
from pairframe.report.html.assets import content_policy, island
from pairframe.report.html.light import read_light
from pairframe.report.html.pictures import STAMP, THUMBNAIL_BYTES, known_view, make_figures, make_pictures
from pairframe.results.cohort_table import cohort_of
from pairframe.results.formatting import number, scientific, share
from pairframe.results.rows import failed_row
from pairframe.results.schema import BY_NAME, COLUMNS, FEATURES
from pairframe.results.store import ResultStore
from pairframe.results.words import SHORT_NAMES, label_name, short_name, unit
from pairframe.testing import disc
from pairframe.units import Units


class Page(HTMLParser):
    """Tags with their attributes, and the visible text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.html = path.read_text(encoding="utf-8")
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def data(self) -> dict[str, object]:
        return json.loads(re.search(r'id="data">(.*?)</script>', self.html, flags=re.DOTALL)[1])

    def addresses(self) -> list[str]:
        return [value for _, attrs in self.tags for name in ("src", "href") if (value := attrs.get(name))]


def pages(out: Path) -> list[Path]:
    return [out / "report.html", *sorted((out / "pairs").glob("*.html"))]


# --- strangers' strings ----------------------------------------------------------------------


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), lambda s: st.lists(s, max_size=3)))
def test_an_island_of_json_comes_back_and_cannot_end_its_element(value: object) -> None:
    text = str(island(value))
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()


def test_what_json_cannot_say_is_said_otherwise() -> None:
    assert json.loads(island([math.nan, math.inf, -math.inf, None, np.float64(2)])) == [None, "inf", "-inf", None, 2]


def test_every_name_is_shown_in_full_and_none_becomes_markup(report_cohort: Path) -> None:
    report = Page(report_cohort / "report.html")
    assert {HOSTILE, BREAKOUT, LONG} <= set(report.data["ids"])
    shown = [Page(path) for path in pages(report_cohort)]
    for name in (HOSTILE, BREAKOUT, LONG):
        assert any(name in page.text for page in shown)
    for page in shown:
        assert "onerror" not in {name for _, attrs in page.tags for name in attrs}
        assert [attrs.get("type") for tag, attrs in page.tags if tag == "script"] in (
            ["application/json", None],
            [None],
        )


def test_pages_ask_for_nothing_but_files_beside_them(report_cohort: Path) -> None:
    for path in pages(report_cohort):
        page = Page(path)
        for address in page.addresses():
            if not address.startswith(("#", "data:image/png;base64,")):
                assert re.fullmatch(r"(\.\./)?(pairs/)?[A-Za-z0-9_/-]+\.(html|png)", address)
                assert (path.parent / address).is_file()
        (policy,) = [
            attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy


def test_the_policy_knows_the_very_style_and_script_of_the_page(report_cohort: Path) -> None:
    for path in pages(report_cohort):
        html = path.read_text(encoding="utf-8")
        style = re.search(r"<style>(.*?)</style>", html, flags=re.DOTALL)[1]
        script = re.search(r"<script>(.*?)</script>", html, flags=re.DOTALL)[1]
        assert content_policy(style, script).replace("'", "&#39;") in html


# --- what is said ----------------------------------------------------------------------------


def test_the_report_tells_failures_and_unfinished_solves_with_their_advice(report_cohort: Path) -> None:
    text = " ".join(Page(report_cohort / "report.html").text.split())
    assert "both masks are empty" in text
    assert "draw one" in text
    assert "1 pair: not converged" in text
    assert "do not trust the numbers" in text
    assert pf.Status.max_iterations.advice in text


def test_an_unfinished_pair_does_not_look_fine_on_its_page(report_cohort: Path) -> None:
    (path,) = (report_cohort / "pairs").glob("unfinished-*.html")
    assert "not certified" in Page(path).text
    (fine,) = (report_cohort / "pairs").glob("disc_1-*.html")
    assert "not certified" not in Page(fine).text


def test_a_pair_page_has_numbers_with_units_noise_floor_certificate_and_the_way_to_its_data(
    report_cohort: Path,
) -> None:
    (path,) = (report_cohort / "pairs").glob("disc_1-*.html")
    page = Page(path)
    row = ResultStore(report_cohort).table().set_index("pair_id").loc["disc 1"]
    text = " ".join(page.text.split())
    assert f"{number(row.percent_created)} %" in text
    assert f"bias of the method {share(row.noise_floor)}" in text
    assert f"a relative gap of {scientific(row.relative_gap)}" in text
    assert not re.search(r"\de-\d", text.split("The maps are ")[0].split("Certificate")[1]), "one kind of minus sign"
    assert f">{number(row.mean_displacement_um)}</td><td>µm</td>" in page.html
    assert row.maps_group in text
    assert "pair_id='disc 1'" in text
    assert "disc.tif@1" in text
    assert [attrs["title"] for _, attrs in page.tags if "rel" in attrs] == ["disc 0", "disc 2"]


def test_lengths_without_a_pixel_size_are_in_pixels(tmp_path: Path) -> None:
    result = pf.compare(disc(SHAPE, (20, 25), 9), disc(SHAPE, (20, 30), 9))
    result.save(tmp_path / "out", pair_id="one")
    text = Page(write_report(tmp_path / "out", max_figures=0)).text
    (path,) = (tmp_path / "out/pairs").glob("*.html")
    assert "µm" not in text.replace("are in µm", "")
    assert "µm" not in Page(path).text
    assert unit("area_source_um2", Units()) == "px²"
    assert unit("divergence", Units(1.0), is_euclidean=True) == "mass × work px"


def test_a_pixel_that_somebody_says_is_one_micrometre_is_in_micrometres(tmp_path: Path) -> None:
    masks = disc(SHAPE, (20, 25), 9), disc(SHAPE, (20, 30), 9)
    pf.compare(*masks, pf.TransportConfig(px_size_um=1.0)).save(tmp_path, pair_id="one")
    report = Page(write_report(tmp_path, max_figures=0))
    (path,) = (tmp_path / "pairs").glob("*.html")
    assert "µm" in Page(path).text
    assert "µm" in {column["unit"] for column in report.data["columns"] if column["name"] == "blur_um"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (0.0, "0"),
        (1234567.0, "1,235,000"),
        (3.14159, "3.142"),
        (-0.5, "−0.5"),
        (1e-10, "1.0e−10"),
        (100.0, "100"),
    ],
)
def test_numbers_are_written_for_people(value: float | None, words: str) -> None:
    assert number(value) == words


@pytest.mark.parametrize(
    ("percent", "words"), [(99.96, "99.96"), (99.9996, ">99.999"), (100.0, "100"), (2e-4, "<0.001")]
)
def test_nearly_all_is_not_called_all_on_a_page(percent: float, words: str) -> None:
    assert number(percent, "%") == words


def test_every_column_has_a_name_of_its_own_that_people_read() -> None:
    names = [short_name(column.name) for column in COLUMNS]
    assert len(set(names)) == len(names)
    for column in FEATURES:
        assert column.name in SHORT_NAMES
        assert not re.search(r"_|um\b|um2|rms|p50|p90", short_name(column.name))
        assert unit(column.name, Units(1.0)) or column.unit == "1"
    assert short_name("energy_share_8_to_16_blur") == "motion at 8–16 × blur"


def test_labels_find_their_roles_by_name_or_by_content() -> None:
    rows = [
        {"embryo": f"e{k % 3}", "hpf": 24 + k, "dose": "high" if k % 2 else "low", "note": f"n{k}"} for k in range(90)
    ]
    found = cohort_of(rows, ("embryo", "hpf", "dose", "note"))
    assert (found.group, found.series, found.time) == ("dose", "embryo", "hpf")
    assert synthetic_rows(30).group == "group"


# --- on disk ---------------------------------------------------------------------------------


def test_one_pair_has_its_figures_in_the_report_also_when_light_pictures_are_there_already(tmp_path: Path) -> None:
    small_result().save(tmp_path / "out", pair_id="only one")
    write_report(tmp_path / "out", max_figures=0)
    (folder,) = [path for path in (tmp_path / "out/pairs").iterdir() if path.is_dir()]
    assert not (folder / "summary.png").exists()
    report = Page(write_report(tmp_path / "out"))
    assert any(address.endswith("summary.png") for address in report.addresses())
    made = {path.name for path in folder.iterdir()}
    assert {"summary.png", "convergence.png", "morph.png", "source.png", "target.png", STAMP} <= made


def test_a_second_report_makes_no_picture_again_and_a_damaged_stamp_does(tmp_path: Path) -> None:
    out = tmp_path / "out"
    small_result().save(out, pair_id="one")
    write_report(out, max_figures=0)
    picture = next((out / "pairs").glob("*/source.png"))
    first = picture.stat().st_mtime_ns
    write_report(out, max_figures=0)
    assert picture.stat().st_mtime_ns == first
    (picture.parent / STAMP).write_text("{")
    assert known_view(picture.parent) is None
    write_report(out, max_figures=0)
    assert picture.stat().st_mtime_ns > first
    assert not list(out.rglob(".tmp-*"))


def test_the_page_of_a_replaced_result_goes_and_foreign_files_stay(tmp_path: Path) -> None:
    result = small_result()
    result.save(tmp_path, pair_id="one")
    write_report(tmp_path, max_figures=0)
    (old,) = (tmp_path / "pairs").glob("one-*.html")
    mine = old.with_suffix("") / "mine.txt"
    other = tmp_path / "pairs/notes.html"
    for path in (mine, other):
        path.write_text("keep")
    result.save(tmp_path, pair_id="one", overwrite=True)
    write_report(tmp_path, max_figures=0)
    (new,) = (tmp_path / "pairs").glob("one-*.html")
    assert new != old
    assert mine.read_text() == other.read_text() == "keep"
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]


def test_a_pair_with_lost_maps_keeps_its_numbers_and_says_what_is_lost(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.commit([store.write_maps(small_result(), name) for name in ("good", "lost")])
    (group,) = store.maps_path.glob("lost-*")
    spoil(group, "work_maps/c.0.0.0")
    report = Page(write_report(tmp_path, max_figures=0))
    assert "1 pair: maps unreadable" in report.text
    assert report.data["pictures"][0] is not None
    assert report.data["pictures"][1] is None
    (page,) = (tmp_path / "pairs").glob("lost-*.html")
    assert "cannot be read" in Page(page).text


def test_light_pictures_are_those_of_the_whole_result_and_read_only_the_work_grid(tmp_path: Path) -> None:
    a, b = disc(SHAPE, (20, 25), 9), disc(SHAPE, (22, 33), 12)
    result = pf.compare(a, b, pf.TransportConfig(px_size_um=2.0, downsample_factor=2, reach_um=9.0))
    result.save(tmp_path / "out", pair_id="one")
    (group,) = (tmp_path / "out/maps.zarr").glob("one-*")
    for unneeded in ("cost_source", "mass_created", "velocity_dy"):
        spoil(group, f"{unneeded}/c.0.0")
    light = make_pictures(read_light(group, "one"), tmp_path / "light")
    whole = make_pictures(result, tmp_path / "whole")
    assert light == whole
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "light" / path.name).read_bytes(), path.name
    with pytest.raises(BrokenStoreError, match="holds the pair 'one'"):
        read_light(group, "two")


def test_beyond_the_limit_pairs_have_a_row_but_no_page(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.commit([store.write_maps(small_result(), name) for name in ("a", "b", "c")])
    report = Page(write_report(tmp_path, max_figures=0, max_pages=2))
    assert len(report.data["ids"]) == 3
    assert [page is None for page in report.data["pages"]] == [False, False, True]


def test_failures_alone_make_a_report(tmp_path: Path) -> None:
    ResultStore(tmp_path).commit([failed_row("a", "broken"), failed_row("b", ValueError("worse"))])
    text = Page(write_report(tmp_path)).text
    assert "broken" in text
    assert "ValueError: worse" in text


@pytest.mark.parametrize("empty", ["source", "target"])
def test_a_pair_with_an_empty_mask_has_a_page(tmp_path: Path, empty: str) -> None:
    masks = [disc(SHAPE, (20, 25), 9), np.zeros(SHAPE, bool)]
    pf.compare(*(masks if empty == "target" else masks[::-1])).save(tmp_path)
    write_report(tmp_path)
    (path,) = (tmp_path / "pairs").glob("*.html")
    assert "the answer is exact" in Page(path).text
    values = re.findall(r'<td class="number" title="([^"]*)">([^<]*)<', Page(path).html)
    assert ("", "–") in values  # no divergence, no noise floor
    assert not {"nan", "None", "inf"} & {word for pair in values for word in pair}


def test_odd_results_have_pages_whose_pictures_are_all_there(tmp_path: Path) -> None:
    one = np.zeros(SHAPE)
    one[3, 4] = 1
    a, b = disc(SHAPE, (20, 25), 9), disc(SHAPE, (22, 33), 12)
    oracle = pf.TransportConfig(metric="euclidean", backend="oracle", downsample_factor=4)
    results = {
        "no history": pf.compare(a, b, oracle),
        "one pixel": pf.compare(one, one, pf.TransportConfig(px_size_um=0.325)),
        "intensity": pf.compare(a * 1.5, b * 0.5, pf.TransportConfig(mass_mode="intensity")),
        "half balanced": pf.compare(a, b, pf.TransportConfig(penalty=("kl", "balanced"))),
    }
    store = ResultStore(tmp_path)
    store.commit([store.write_maps(result, name) for name, result in results.items()])
    write_report(tmp_path, max_figures=0)
    for path in pages(tmp_path):
        page = Page(path)
        assert all((path.parent / address).is_file() for address in page.addresses() if not address.startswith("data:"))
    assert "those of the other pairs are in µm" in Page(tmp_path / "report.html").text
    assert "mean displacement (median)" not in Page(tmp_path / "report.html").text  # of um and px there is none
    (page,) = (tmp_path / "pairs").glob("no_history-*.html")
    assert "mass × px. It is proved" in Page(page).text  # euclidean, without a pixel size
    figures = make_figures(results["no history"], tmp_path / "drawn")
    assert figures.has_convergence == (tmp_path / "drawn/convergence.png").is_file()
    assert (figures.n_morph > 0) == (tmp_path / "drawn/morph.png").is_file()


def test_a_folder_without_results_and_a_place_that_cannot_be_written_are_our_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"results\.parquet"):
        write_report(tmp_path / "nowhere")
    small_result().save(tmp_path / "out")
    (tmp_path / "out/pairs").write_text("in the way")
    with pytest.raises(StoreWriteError, match="choose another folder"):
        write_report(tmp_path / "out")
    assert (tmp_path / "out/pairs").read_text() == "in the way"
    assert not (tmp_path / "out/report.html").exists()


def test_two_thousand_thumbnails_stay_below_thirty_megabytes() -> None:
    assert 2000 * THUMBNAIL_BYTES * 4 / 3 < 30e6
    result = small_result()
    noise = np.random.default_rng(0).random((400, 700))
    transform = pf.GridTransform.from_pair(noise, noise, 1, px_size_um=2.0)
    maps = dict.fromkeys(("mass_source", "mass_target", "mass_created", "mass_destroyed"), noise)
    worst = replace(result, transform=transform, work=replace(result.work, **maps))
    assert len(thumbnail(worst, 128, most_bytes=THUMBNAIL_BYTES)) <= THUMBNAIL_BYTES


def test_labels_of_a_run_have_words_and_a_users_own_keep_their_names() -> None:
    assert [label_name(name) for name in ("frame_target", "frame_interval_min", "dose_target")] == [
        "target frame",
        "frame interval (min)",
        "dose_target",
    ]


def test_pairs_with_one_reference_are_plotted_by_their_target() -> None:
    labels = {"series": "a", "frame": 0}
    rows = [
        {**dict.fromkeys(BY_NAME), **labels, "series": series, "frame": 0, "frame_target": k, "pair_id": f"{series}{k}"}
        for series in "ab"
        for k in (1, 2, 3)
    ]
    carried = ("series", "frame", "frame_target")
    assert cohort_of(rows, carried).time == "frame_target"
    for row in rows:
        row["frame"] = row["frame_target"] - 1
    assert cohort_of(rows, carried).time == "frame"
    assert cohort_of(rows[:1], carried).time == "frame"


def test_a_pair_with_warnings_is_nowhere_plainly_converged(tmp_path: Path) -> None:
    jumped = pf.compare(disc((60, 160), (30, 30), 10), disc((60, 160), (30, 130), 10))
    jumped.save(tmp_path, pair_id="jumped")
    report = Page(write_report(tmp_path, max_figures=0))
    assert '<li class="odd"><b>1</b>solved exactly, but read this' in report.html
    assert re.search(r'"words": ?\["solved exactly, but read this"\]', report.html)
    (path,) = (tmp_path / "pairs").glob("*.html")
    assert '<span class="badge odd">solved exactly, but read this</span>' in Page(path).html
