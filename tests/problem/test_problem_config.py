"""A config checks itself, is hashable, and survives JSON and TOML."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import fields, replace

import numpy as np
import pytest

from pairframe import BoxYX, errors
from pairframe.problem import TransportConfig

CONFIGS = [
    TransportConfig(),
    TransportConfig(blur_um=2, reach_um=50, penalty=("kl", "balanced"), device="cuda:0", max_support_points=5000),
    TransportConfig(epsilon=1e-5, marginal_relaxation=10.0, coord_scale=1 / 576, mass_mode="boundary_band(16)"),
    TransportConfig(crop_policy="fixed", override_pair_bbox=BoxYX(0, 8, 4, 20), allow_clipping=True, debug=True),
    TransportConfig(crop_policy="bucketed", bucket_shapes=((64, 128), (128, 256)), bucket_mode="nearest", tol=1e-12),
    TransportConfig(reference="counting", metric="euclidean", normalization="each", dtype="float32", debias=False),
]


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_json_and_toml_give_an_equal_config_back(config: TransportConfig) -> None:
    for back in (
        TransportConfig.from_json(config.to_json()),
        TransportConfig.from_toml(config.to_toml()),
        replace(config),
    ):
        assert back == config
        assert hash(back) == hash(config)


def test_toml_leaves_out_what_is_none() -> None:
    values = tomllib.loads(TransportConfig(blur_um=2.0).to_toml())
    assert values["blur_um"] == 2.0
    assert "epsilon" not in values
    assert json.loads(TransportConfig().to_json())["epsilon"] is None


def test_missing_fields_are_defaults() -> None:
    assert TransportConfig.from_toml("") == TransportConfig()
    assert TransportConfig.from_json('{"pad": 4}') == TransportConfig(pad=4)


def test_lists_and_numpy_numbers_become_plain_values() -> None:
    config = TransportConfig(
        penalty=["kl", "tv"],  # type: ignore[arg-type]
        bucket_shapes=[[8, 9]],  # type: ignore[arg-type]
        blur_um=np.float32(2),
        pad=np.int64(3),
        debias=np.True_,  # type: ignore[arg-type]
    )
    assert config == TransportConfig(penalty=("kl", "tv"), bucket_shapes=((8, 9),), blur_um=2.0, pad=3)
    assert TransportConfig.from_json(config.to_json()) == config


def test_one_penalty_stands_for_both_sides() -> None:
    assert TransportConfig(penalty="tv").penalties_ab == ("tv", "tv")
    assert TransportConfig(penalty=("tv", "kl")).penalties_ab == ("tv", "kl")
    assert TransportConfig(penalty=("tv", "tv")) == TransportConfig(penalty="tv")


def test_the_fields_and_defaults_are_those_that_others_rely_on() -> None:
    names = (
        "epsilon marginal_relaxation blur_um reach_um penalty reference metric coord_scale "
        "downsample_factor pad crop_policy override_pair_bbox bucket_shapes bucket_mode allow_clipping "
        "px_size_um mass_mode normalization backend dtype device max_support_points seed debias tol max_iterations debug "
        "align allow_flip moved_mass moved_share strain invert min_area_um2 largest fill_holes "
        "error_bars rim_um rim_correlation_um volume"
    )
    assert " ".join(field.name for field in fields(TransportConfig)) == names
    default = TransportConfig()
    assert (default.tol, default.max_iterations, default.reference) == (1e-6, 5000, "heat")
    assert default.penalty == "partial"


BAD = {
    "epsilon and blur": (
        {"epsilon": 1.0, "blur_um": 2.0},
        errors.ConfigError,
        r"at most one of epsilon and blur_um, got epsilon=1\.0 and blur_um=2\.0.*keep blur_um",
    ),
    "relaxation and reach": (
        {"marginal_relaxation": 1.0, "reach_um": 2.0},
        errors.ConfigError,
        "at most one of marginal_relaxation and reach_um.*keep reach_um",
    ),
    "epsilon": ({"epsilon": 0.0}, errors.ConfigError, r"finite epsilon, got 0\.0"),
    "blur": ({"blur_um": -2.0}, errors.ConfigError, r"finite blur_um, got -2\.0"),
    "reach": ({"reach_um": math.inf}, errors.ConfigError, 'reach_um, got inf.*use penalty="balanced"'),
    "infinite relaxation": ({"marginal_relaxation": math.inf}, errors.ConfigError, 'got inf.*use penalty="balanced"'),
    "huge blur": ({"blur_um": 1e300}, errors.ConfigError, r"blur_um from 1e-100 to 1e\+100, got 1e\+300"),
    "tiny blur": ({"blur_um": 1e-300}, errors.ConfigError, "blur_um from 1e-100 .*, got 1e-300"),
    "huge reach": ({"reach_um": 1e300}, errors.ConfigError, r"reach_um from 1e-100 to 1e\+100, got 1e\+300"),
    "huge coord_scale": ({"coord_scale": 1e300}, errors.ConfigError, r"coord_scale from .*, got 1e\+300"),
    "tiny coord_scale": ({"coord_scale": 1e-300}, errors.ConfigError, "coord_scale from .*, got 1e-300"),
    "endless seed": ({"seed": 16**5000}, errors.ConfigError, "seed to be an integer <= .*too long to print"),
    "endless pixel size": ({"px_size_um": 16**5000}, errors.PixelSizeError, "too long to print"),
    "relaxation": ({"marginal_relaxation": math.nan}, errors.ConfigError, "marginal_relaxation, got nan"),
    "blur text": ({"blur_um": "2"}, errors.ConfigError, "blur_um, got '2'"),
    "blur boolean": ({"blur_um": True}, errors.ConfigError, "blur_um, got True"),
    "blur list": ({"blur_um": [2]}, errors.ConfigError, r"blur_um, got \[2\]"),
    "coord_scale": ({"coord_scale": 0}, errors.ConfigError, "coord_scale, got 0"),
    "tol": ({"tol": 0.0}, errors.ConfigError, r"tol, got 0\.0"),
    "tol large": ({"tol": 1.0}, errors.ConfigError, r"tol below 1, got 1\.0"),
    "metric": ({"metric": "cosine"}, errors.ProblemError, "sqeuclidean, euclidean, got 'cosine'"),
    "mass mode": ({"mass_mode": "area"}, errors.MaskError, "a mass mode.*got 'area'"),
    "penalty": ({"penalty": "l2"}, errors.ProblemError, "kl, tv, partial, balanced, got 'l2'"),
    "penalty of the target": ({"penalty": ("kl", "l2")}, errors.ProblemError, "got 'l2'"),
    "three penalties": ({"penalty": ("kl",) * 3}, errors.ConfigError, r"a pair \(source, target\)"),
    "penalty number": ({"penalty": 3}, errors.ConfigError, r"a pair \(source, target\), got 3"),
    "reference": ({"reference": "x"}, errors.ProblemError, "heat, product, counting, got 'x'"),
    "normalization": ({"normalization": "none"}, errors.ConfigError, "normalization to be one of joint, each, got"),
    "policy": ({"crop_policy": "tight"}, errors.FrameError, "crop_policy to be one of union, fixed, bucketed"),
    "bucket mode": ({"bucket_mode": "first"}, errors.FrameError, "bucket_mode to be one of next_larger, nearest"),
    "bucket shapes": ({"bucket_shapes": [(4,)]}, errors.FrameError, r"pairs \(Hb, Wb\)"),
    "box": ({"override_pair_bbox": (0, 1, 0, 1)}, errors.ConfigError, r"to be a BoxYX.*BoxYX\(y0, y1, x0, x1\)"),
    "dtype": ({"dtype": "float16"}, errors.ConfigError, "dtype to be one of float64, float32, got 'float16'"),
    "factor": ({"downsample_factor": 0}, errors.FrameError, "integer >= 1, got 0"),
    "pad": ({"pad": -1}, errors.FrameError, "got -1"),
    "pixel size": ({"px_size_um": 0}, errors.PixelSizeError, "positive pixel size"),
    "backend": ({"backend": None}, errors.ConfigError, "backend to be a name, got None"),
    "device": ({"device": ""}, errors.ConfigError, "device to be a name, got ''"),
    "points": ({"max_support_points": 0}, errors.ConfigError, "max_support_points to be an integer >= 1, got 0"),
    "seed": ({"seed": -1}, errors.ConfigError, "seed to be an integer >= 0, got -1"),
    "iterations": ({"max_iterations": 1.5}, errors.ConfigError, "max_iterations to be an integer >= 1, got 1.5"),
    "iterations boolean": ({"max_iterations": True}, errors.ConfigError, "got True"),
    "debias": ({"debias": "yes"}, errors.ConfigError, "debias to be true or false, got 'yes'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_refused(case: str) -> None:
    values, error, message = BAD[case]
    with pytest.raises(error, match=message) as found:
        TransportConfig(**values)
    assert found.value.field in values


BAD_TEXTS = {
    "unknown field": ('{"blur": 2.0}', errors.ConfigError, "got 'blur'.*did you mean 'blur_um'"),
    "not JSON": ("{", errors.ConfigError, "the JSON of a TransportConfig"),
    "a list": ("[1]", errors.ConfigError, r"the fields of a TransportConfig, got \[1\]"),
    "deep nesting": ("[" * 200_000, errors.ConfigError, "the JSON of a TransportConfig, got it is nested too deeply"),
    "a broken box": (
        '{"override_pair_bbox": {"y0": 1}}',
        errors.ConfigError,
        "override_pair_bbox to be a BoxYX",
    ),
}


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_a_bad_file_is_refused(case: str) -> None:
    text, error, message = BAD_TEXTS[case]
    with pytest.raises(error, match=message):
        TransportConfig.from_json(text)


def test_bad_toml_is_refused() -> None:
    with pytest.raises(errors.ConfigError, match=r"expected TOML.*blur_um = 2"):
        TransportConfig.from_toml("blur_um = ")
    with pytest.raises(errors.ConfigError, match="did you mean 'reach_um'"):
        TransportConfig.from_toml("reach = 2")


@pytest.mark.parametrize(
    "text",
    [
        "blur_um = " + "[" * 20_000,
        "blur_um = " + "{a = " * 20_000,
        "blur_um" + ".a" * 5_000 + " = 1",  # dotted keys nest as well
        "penalty" + ".a" * 5_000 + " = 1",
        "bucket_shapes = [{a" + ".a" * 5_000 + " = 1}]",
        f"seed = {'9' * 5_000}",
        f"seed = 0x{'f' * 5_000}",
        f"reach_um = 0x{'f' * 5_000}",
    ],
    ids=lambda text: text[:16],
)
def test_toml_that_is_too_deep_or_too_long_is_refused(text: str) -> None:
    # Whether nesting is refused by the reader or by the check of the field depends on the version of Python.
    with pytest.raises(errors.InputError, match=r"expected .*, got .*To fix") as found:
        TransportConfig.from_toml(text)
    assert len(str(found.value)) < 500
