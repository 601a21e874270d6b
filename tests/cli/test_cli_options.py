"""Every field of a config is an option of a command."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.option_words import HELP, PANELS
from pairframe.cli.options import (
    config_file,
    config_options,
    options_markdown,
    read_config,
    with_config_options,
)
from pairframe.errors import ConfigError, FileError, FrameError, InputError, ProblemError

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
FIELD_NAMES = [field.name for field in fields(pf.TransportConfig)]


def parsed(*words: str) -> pf.TransportConfig:
    """The config that a command with these words is given."""
    app, found = typer.Typer(), []

    @app.command()
    @with_config_options
    def run(manifest: str, config: pf.TransportConfig, jobs: Annotated[int, typer.Option()] = 1) -> None:
        found.append((manifest, config, jobs))

    done = CliRunner().invoke(app, ["some.csv", "--jobs", "3", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    assert found[0][0] == "some.csv"
    assert found[0][2] == 3
    return found[0][1]  # type: ignore[no-any-return]


def test_no_option_means_the_default_config() -> None:
    assert parsed() == pf.TransportConfig()


def test_every_field_is_an_option_and_the_help_tells_its_meaning() -> None:
    assert [option.name for option in config_options()] == FIELD_NAMES
    assert set(FIELD_NAMES) == set(HELP)
    assert set(PANELS) <= set(FIELD_NAMES)


def test_a_new_field_appears_by_itself() -> None:
    @dataclass(frozen=True)
    class Longer(pf.TransportConfig):
        patience: int | None = None
        hurry: bool = False
        weights: tuple[float, ...] = (1.0, 2.0)

    patience, hurry, weights = config_options(Longer)[-3:]
    assert (patience.flag, patience.kind, patience.default) == ("--patience", int, "none")
    assert (hurry.flag, hurry.kind, hurry.default) == ("--hurry/--no-hurry", bool, "no")
    assert weights.value("[1.5, 2.5]") == [1.5, 2.5]
    assert weights.value("plain words") == "plain words"


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--penalty", "kl,balanced"], {"penalty": ("kl", "balanced")}),
        (["--penalty", " tv , tv "], {"penalty": "tv"}),
        (["--override-pair-bbox", "0,64,8,128"], {"override_pair_bbox": pf.BoxYX(0, 64, 8, 128)}),
        (["--bucket-shapes", "64x96, 64X160"], {"bucket_shapes": ((64, 96), (64, 160))}),
        (["--no-debias", "--debug"], {"debias": False, "debug": True}),
        (["--mass-mode", "boundary_band(16)"], {"mass_mode": "boundary_band(16)"}),
        (["--device", "cuda:0", "--dtype", "float32"], {"device": "cuda:0", "dtype": "float32"}),
        (["--epsilon", "1e-5", "--coord-scale", "0.25"], {"epsilon": 1e-5, "coord_scale": 0.25}),
        (["--downsample-factor", "4", "--pad", "0"], {"downsample_factor": 4, "pad": 0}),
        (
            ["--crop-policy", "bucketed", "--bucket-mode", "nearest"],
            {"crop_policy": "bucketed", "bucket_mode": "nearest"},
        ),
    ],
)
def test_words_become_values(words: list[str], values: dict[str, Any]) -> None:
    assert parsed(*words) == pf.TransportConfig(**values)


@given(
    blur_um=st.floats(1e-6, 1e6),
    pad=st.integers(0, 10_000),
    tol=st.floats(1e-12, 0.5),
    debias=st.booleans(),
    reference=st.sampled_from(["heat", "product", "counting"]),
)
def test_what_is_written_as_words_comes_back(
    blur_um: float, pad: int, tol: float, debias: bool, reference: str
) -> None:
    config = pf.TransportConfig(blur_um=blur_um, pad=pad, tol=tol, debias=debias, reference=reference)
    words = {name: value for name, value in dataclasses.asdict(config).items() if value is not None}
    assert read_config(None, words) == config


def test_options_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(pf.TransportConfig(pad=3, tol=1e-4, debias=False).to_toml())
    assert parsed("--config", str(path)) == pf.TransportConfig(pad=3, tol=1e-4, debias=False)
    assert parsed("--config", str(path), "--pad", "5", "--debias") == pf.TransportConfig(pad=5, tol=1e-4)


def test_an_option_wins_over_the_same_quantity_in_the_files_unit(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("epsilon = 4.0\nreach_um = 30.0\n")
    found = parsed("--config", str(path), "--blur-um", "5", "--marginal-relaxation", "9")
    assert found == pf.TransportConfig(blur_um=5.0, marginal_relaxation=9.0)
    with pytest.raises(ConfigError, match=r"at most one of epsilon and blur_um, got epsilon=2\.0 and"):
        parsed("--blur-um", "5", "--epsilon", "2")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--override-pair-bbox", "1,2,3"], ConfigError, r"--override-pair-bbox as Y0,Y1,X0,X1.*got '1,2,3'"),
        (["--override-pair-bbox", "9,2,0,8"], FrameError, "at least one pixel"),
        (["--bucket-shapes", "64"], ConfigError, r"e.g. --bucket-shapes 64x96,64x160"),
        (["--penalty", "kl,tv,kl"], ConfigError, "a pair"),
        (["--penalty", "soft"], ProblemError, "soft"),
        (["--tol", "nan"], ConfigError, "tol"),
        (["--crop-policy", "tight"], InputError, "union, fixed, bucketed"),
    ],
)
def test_values_that_cannot_be_are_told(words: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parsed(*words)


def test_a_config_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    with pytest.raises(FileError, match=r"config\.toml"):
        config_file(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match=r"config\.toml.*not UTF-8"):
        config_file(path)
    with pytest.raises(FileError, match="directory"):
        config_file(tmp_path)
    path.write_text("blurr_um = 2.0\n")
    with pytest.raises(ConfigError, match=r"'blurr_um' in .*config\.toml.*did you mean 'blur_um'"):
        config_file(path)
    path.write_text("blur_um = \n")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        config_file(path)


def test_a_file_with_wrong_values_is_told_in_its_own_words(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("blur_um = 2.0\nepsilon = 4.0\n")
    with pytest.raises(ConfigError, match="at most one of epsilon and blur_um"):
        parsed("--config", str(path))


def test_an_error_in_a_file_is_about_the_file_and_not_an_option(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("blur_um = -2.0")
    with pytest.raises(ConfigError, match=r"finite blur_um, got -2\.0 in '") as found:
        parsed("--config", str(path))
    assert found.value.field == ""


def test_the_docs_list_every_option() -> None:
    assert options_markdown() in DOCS.read_text()
