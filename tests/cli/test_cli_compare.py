"""`pairframe compare`: what it writes, prints and refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tifffile
from helpers.cli_masks import SHAPE_HW, content, write_pair
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

import pairframe as pf
from pairframe.cli import compare
from pairframe.cli.app import app
from pairframe.errors import StoreWriteError
from pairframe.report.figures import summary_figure
from pairframe.report.html import pictures
from pairframe.results import ResultStore
from pairframe.results.formatting import scientific, share
from pairframe.results.schema import COLUMNS
from pairframe.testing import disc


def run(*words: str | Path) -> Result:
    done = CliRunner().invoke(app, ["compare", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    return write_pair(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_everything_is_written_and_said(pair: tuple[str, str], out: Path) -> None:
    done = run(*pair, "--out", out, "--frame-interval", "5")
    assert done.exit_code == 0, done.output
    result = pf.load(out)
    for name in ("report.html", "summary.png", "movie.gif", "summary.json", "results.parquet", "maps.zarr"):
        assert str(out / name) in done.stdout
        assert (out / name).exists()
    assert (out / "summary.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "movie.gif").read_bytes().startswith(b"GIF8")
    assert not list(out.rglob(".tmp-*"))
    words = " ".join(done.stdout.split())
    assert "converged" in words
    assert f"bias of the method {share(result.noise_floor)}" in words
    assert "µm (" in words
    assert "µm/min)" in words
    assert (
        f"certificate {scientific(result.relative_gap)} proved: at most this share of the plan's cost is error" in words
    )
    assert f"(relative gap; marginal error {scientific(result.marginal_error)}; tolerance 1e\N{MINUS SIGN}06)" in words
    assert not re.search(r"\de-\d", done.stdout), "one kind of minus sign"
    assert done.stderr == ""


def test_the_summary_figure_is_drawn_once(pair: tuple[str, str], out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[pf.TransportResult] = []

    def counted(result: pf.TransportResult, figure: Figure, **options: float | None) -> Figure:
        drawn.append(result)
        return summary_figure(result, figure, **options)

    for place in (compare, pictures):
        monkeypatch.setattr(place, "summary_figure", counted)
    assert run(*pair, "--out", out).exit_code == 0
    assert len(drawn) == 1
    (shown,) = out.glob("pairs/*/summary.png")
    assert shown.read_bytes() == (out / "summary.png").read_bytes()


def test_the_store_holds_what_python_finds(pair: tuple[str, str], out: Path) -> None:
    assert run(*pair, "--out", out, "--no-report", "--blur-um", "3", "--downsample-factor", "2").exit_code == 0
    found, wanted = pf.load(out), pf.compare(*pair, pf.TransportConfig(blur_um=3.0, downsample_factor=2))
    assert found.config == wanted.config
    np.testing.assert_allclose(found.mass_created, wanted.mass_created, atol=1e-9)
    np.testing.assert_allclose(found.velocity_field, wanted.velocity_field, atol=1e-9)
    assert sorted(path.name for path in out.iterdir()) == [".lock", "maps.zarr", "results.parquet", "summary.json"]


def test_json_is_all_that_is_on_standard_output_and_in_the_file(pair: tuple[str, str], out: Path) -> None:
    done = run(*pair, "--out", out, "--no-report", "--json", "--frame-interval", "4", "--pair-id", "fish 1")
    found = json.loads(done.stdout)
    assert found == json.loads((out / "summary.json").read_text())
    result = pf.load(out)
    assert found["pair_id"] == "fish 1"
    assert found["total_mass_created"] == result.total_mass_created
    assert found["mean_speed_um_per_min"] == pytest.approx(result.mean_displacement_um / 4)
    assert found["units"]["mean_speed_um_per_min"] == "um/min"
    assert found["config"]["px_size_um"] == 2.0
    assert found["versions"]["pairframe"] == pf.__version__
    assert found["px_size_known"] is True
    names = {column.name.removesuffix("_json") for column in COLUMNS}
    assert names <= set(found)


def test_numbers_that_json_has_not_are_null_or_text(tmp_path: Path, out: Path) -> None:
    np.save(tmp_path / "empty.npy", np.zeros(SHAPE_HW, bool))
    np.save(tmp_path / "full.npy", disc(SHAPE_HW, (20, 20), 5))
    words = (tmp_path / "full.npy", tmp_path / "empty.npy", "--out", out, "--no-report", "--penalty", "balanced")
    done = run(*words, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert (found["status"], found["noise_floor"], found["reach_um"]) == ("empty_target", None, "inf")
    told = run(*words, "--overwrite").stdout
    assert "empty target: the target has no mass" in told
    assert "certificate" not in told


def test_without_a_pixel_size_one_line_says_so_and_nothing_claims_micrometres(tmp_path: Path, out: Path) -> None:
    done = run(*write_pair(tmp_path, None), "--out", out, "--no-report", "--frame-interval", "2")
    assert done.stderr.count("\n") == 1
    assert "no pixel size is known" in done.stderr
    assert "µm" not in done.stdout
    assert "px/min" in done.stdout
    found = json.loads((out / "summary.json").read_text())
    assert found["px_size_known"] is False
    assert found["units"]["mean_speed_um_per_min"] == "px/min"
    assert not [unit for unit in found["units"].values() if "um" in unit]
    given = run(*write_pair(tmp_path, None), "--out", out, "--no-report", "--overwrite", "--px-size-um", "0.5")
    assert "no pixel size" not in given.stderr
    assert "µm" in given.stdout


def test_a_pixel_of_one_micrometre_that_was_given_is_in_micrometres(tmp_path: Path, out: Path) -> None:
    done = run(*write_pair(tmp_path, None), "--out", out, "--no-report", "--px-size-um", "1")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "µm" in done.stdout
    found = json.loads((out / "summary.json").read_text())
    assert (found["px_size_known"], found["units"]["blur_um"]) == (True, "um")


def test_quiet_says_nothing(pair: tuple[str, str], out: Path) -> None:
    done = run(*pair, "--out", out, "--no-report", "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert pf.load(out).status == "converged"


@pytest.mark.parametrize("how", ["--quiet", "--json", "--no-debug"])
def test_an_answer_that_is_not_certified_is_exit_code_1_and_says_so(pair: tuple[str, str], out: Path, how: str) -> None:
    done = run(*pair, "--out", out, "--no-report", "--max-iterations", "1", "--tol", "1e-12", how)
    assert done.exit_code == 1
    assert "raise max_iterations" in done.stdout + done.stderr
    assert pf.load(out).status == "max_iterations"


@pytest.mark.parametrize("how", ["--quiet", "--json"])
def test_an_empty_mask_is_no_error_but_is_always_said(tmp_path: Path, out: Path, how: str) -> None:
    np.save(tmp_path / "empty.npy", np.zeros(SHAPE_HW, bool))
    np.save(tmp_path / "full.npy", disc(SHAPE_HW, (20, 20), 5))
    done = run(tmp_path / "full.npy", tmp_path / "empty.npy", "--out", out, "--no-report", how)
    assert done.exit_code == 0
    assert "empty_target: the target has no mass" in done.stderr
    assert (done.stdout == "") == (how == "--quiet")


def test_without_an_answer_there_are_no_numbers(pair: tuple[str, str], out: Path) -> None:
    words = (*pair, "--out", out, "--no-report", "--epsilon", "1e-300")
    done = run(*words)
    assert done.exit_code == 1
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    for name in ("moved", "destroyed", "created", "divergence"):
        assert lines[name] == ["none"]
    assert lines["total"] == ["cost", "none"]
    assert lines["certificate"][0] == "none"
    assert "there is no answer" in " ".join(lines["certificate"])
    assert "∞" not in done.stdout
    found = json.loads((out / "summary.json").read_text())
    assert found["status"] == "impossible"
    for name in ("total_mass_moved", "percent_destroyed", "percent_created", "gap", "mean_displacement_um"):
        assert found[name] is None
    assert found["M_source"] == pf.load(out).M_source


def test_a_work_grid_too_coarse_is_said(pair: tuple[str, str], out: Path) -> None:
    done = run(*pair, "--out", out, "--no-report", "--downsample-factor", "500")
    assert done.exit_code == 0
    assert "note: with downsample_factor 500 the source is only 1 x 1 work pixels large" in done.stdout
    assert "use a downsample_factor of 2 or less" in done.stdout


def test_labels_and_pages_are_read(tmp_path: Path, out: Path) -> None:
    stack = np.zeros((3, *SHAPE_HW), np.uint8)
    stack[1][disc(SHAPE_HW, (20, 20), 6)] = 7
    stack[2][disc(SHAPE_HW, (20, 26), 6)] = 7
    tifffile.imwrite(tmp_path / "stack.tif", stack, photometric="minisblack")
    path = tmp_path / "stack.tif"
    assert run(f"{path}@1:7", f"{path}@2:all", "--out", out, "--no-report").exit_code == 0
    table = ResultStore(out).table()
    assert table.source[0] == f"{path}@1:7"
    assert table.M_source[0] == (stack[1] > 0).sum()


# --- folders ---------------------------------------------------------------------------------


def test_a_folder_that_holds_something_needs_overwrite_and_keeps_it(pair: tuple[str, str], out: Path) -> None:
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    refused = run(*pair, "--out", out)
    assert refused.exit_code == 2
    assert "which holds 'notes.txt'. To fix: choose another folder with --out, or add --overwrite" in refused.stderr
    assert "which replaces the pair of the same name, the report, summary.* and movie.gif" in refused.stderr
    assert "all else stays" not in refused.stderr
    assert content(out) == {"notes.txt": b"mine"}
    assert run(*pair, "--out", out, "--no-report", "--overwrite").exit_code == 0
    assert (out / "notes.txt").read_text() == "mine"
    before = content(out)
    assert run(*pair, "--out", out, "--no-report").exit_code == 2
    assert content(out) == before


def test_overwrite_replaces_that_pair_and_leaves_the_others(pair: tuple[str, str], out: Path) -> None:
    pf.compare(*pair).save(out, pair_id="other")
    words = (*pair, "--out", out, "--overwrite")
    assert run(*words, "--no-report").exit_code == 0
    assert run(*words, "--no-report", "--blur-um", "6").exit_code == 0
    store = ResultStore(out)
    assert store.pair_ids() == ["other", "pair"]
    assert store.load("pair").blur_um == pytest.approx(6.0)
    assert len(list(store.maps_path.iterdir())) == 3  # two groups and the root's metadata


@pytest.mark.parametrize("words", [[], ["--overwrite"]])
def test_a_place_that_is_no_folder_is_refused_before_any_work(
    pair: tuple[str, str], tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    for place in (tmp_path / "taken", tmp_path / "taken" / "below"):
        done = run("no such mask", pair[1], "--out", place, *words)
        assert done.exit_code == 2
        assert "not a folder. To fix: choose another one with --out" in done.stderr
    assert (tmp_path / "taken").read_text() == "a file"


def test_a_damaged_store_is_refused_and_not_touched(pair: tuple[str, str], out: Path) -> None:
    pf.compare(*pair).save(out)
    (out / "results.parquet").write_bytes(b"PAR1 nonsense")
    before = content(out)
    done = run(*pair, "--out", out, "--overwrite")
    assert done.exit_code == 2
    assert "move the folder away" in done.stderr
    assert content(out) == before


def test_a_store_of_an_unknown_version_is_refused_and_not_touched(pair: tuple[str, str], out: Path) -> None:
    import pyarrow.parquet as pq

    pf.compare(*pair).save(out)
    table = pq.read_table(out / "results.parquet")
    pq.write_table(table.replace_schema_metadata({"pairframe_schema_version": "99"}), out / "results.parquet")
    before = content(out)
    for words in (["compare", *pair, "--out", str(out), "--overwrite"], ["report", str(out)]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        assert "99" in done.stderr
        assert content(out) == before


def test_a_commit_that_fails_leaves_nothing_behind(
    pair: tuple[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: ResultStore, rows: object) -> None:
        raise StoreWriteError("space", "none", "free some")

    monkeypatch.setattr(ResultStore, "commit", fails)
    assert run(*pair, "--out", out).exit_code == 2
    assert not out.exists()


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tol", "2"], "pairframe: --tol: expected tol below 1, got 2.0. To fix: "),
        (["--downsample-factor", "0"], "--downsample-factor: expected downsample_factor to be an integer >= 1, got 0"),
        (["--blur-um", "-1"], "--blur-um: expected a positive, finite blur_um, got -1.0"),
        (["--max-support-points", "9"], "or raise downsample_factor"),
        (
            ["--device", "cuda:77", "--backend", "oracle"],
            "or choose one that `pairframe doctor` lists",
        ),
        (["--pair-id", "a\udcff"], "--pair-id: expected a pair_id that can be written as UTF-8, got 'a\\udcff'"),
        (["--pad", "much"], "--pad"),
        (["--frame-interval", "0"], "--frame-interval: expected a positive, finite frame interval in minutes"),
        (["--frame-interval", "nan"], "--frame-interval: expected a positive, finite frame interval in minutes"),
        (["--backend", "gird"], "grid"),
        (["--pair-id", ""], "at least one character"),
        (["--config", "nowhere.toml"], "check the path given with --config"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_options_are_exit_code_2_and_nothing_is_written(
    pair: tuple[str, str], out: Path, words: list[str], message: str
) -> None:
    done = run(*pair, "--out", out, *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.output
    assert not out.exists()


def test_bad_masks_are_exit_code_2_and_nothing_is_written(pair: tuple[str, str], tmp_path: Path, out: Path) -> None:
    (tmp_path / "broken.tif").write_bytes(b"II*\0 this is no image")
    np.save(tmp_path / "other_canvas.npy", np.ones((3, 3), bool))
    for source in ("missing.tif", "broken.tif", "other_canvas.npy"):
        done = run(tmp_path / source, pair[1], "--out", out)
        assert done.exit_code == 2
        assert done.stderr.startswith("pairframe: expected ")
        assert "To fix: " in done.stderr
        assert not out.exists()


def test_a_name_with_markup_or_escapes_is_shown_as_it_is(tmp_path: Path, out: Path) -> None:
    source, target = write_pair(tmp_path)
    odd = tmp_path / "[red]\x1b[2J<b>.tif"
    Path(source).rename(odd)
    done = run(odd, target, "--out", out, "--no-report")
    assert done.exit_code == 0
    assert "[red]\N{REPLACEMENT CHARACTER}[2J<b>.tif" in done.stdout
    assert "\x1b" not in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--blur-um", "1e300"], "--blur-um: expected blur_um from 1e-100"),
        (["--reach-um", "1e300"], "--reach-um: expected reach_um from 1e-100"),
        (["--reach-um", "inf"], 'use penalty="balanced"'),
        (["--coord-scale", "1e300"], "--coord-scale: expected coord_scale from 1e-100"),
        (["--blur-um", "1e80", "--px-size-um", "1e-90"], "--blur-um: expected blur_um to be a cost within"),
        (["--config", "deep.toml"], "expected TOML, got text that is nested too deeply"),
        (["--bucket-shapes", "9" * 5_000], "expected --bucket-shapes as HxW,HxW"),
    ],
    ids=lambda words: "" if isinstance(words, str) else " ".join(words)[:20],
)
def test_a_number_or_text_that_no_computation_survives_is_bad_input_and_nothing_is_written(
    words: list[str], message: str, pair: tuple[str, str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out.parent)
    Path("deep.toml").write_text("blur_um = " + "[" * 20_000)
    done = run(*pair, "--out", out, *words)
    assert (done.exit_code, out.exists()) == (2, False)
    assert message in done.output


def test_a_label_with_thousands_of_digits_is_bad_input(pair: tuple[str, str], out: Path) -> None:
    done = run(f"{pair[0]}:{'9' * 5_000}", pair[1], "--out", out)
    assert (done.exit_code, out.exists()) == (2, False)
    assert "expected a label of at most 255 digits" in done.output


def test_a_sweep_and_error_bars_are_on_the_page_of_the_pair(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["compare", *write_pair(tmp_path), "--out", str(out), "--sweep", "--rim-um", "1", "--px-size-um", "2"]
    )
    assert done.exit_code == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "sweep: " in words
    assert "for uncertain outlines" in words
    (page,) = (out / "pairs").glob("*.html")
    text = page.read_text()
    assert "How much depends on the scales" in text
    assert text.count('class="errorbar"') == 5
    assert (out / "pairs" / page.stem / "sweep.png").is_file()
    assert CliRunner().invoke(app, ["report", str(out)]).exit_code == 0
    assert "How much depends on the scales" in page.read_text()  # it stays


def test_a_rim_wider_than_the_object_is_exit_code_2(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["compare", *write_pair(tmp_path), "--out", str(tmp_path / "out"), "--rim-um", "40"])
    assert done.exit_code == 2
    assert "--rim-um: expected rim_um below" in done.stderr
    assert not (tmp_path / "out").exists()
