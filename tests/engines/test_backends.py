"""What works here, and how we know."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import pairframe as pf
from pairframe.cli.app import app
from pairframe.cli.doctor import parse_size
from pairframe.engines import registry
from pairframe.engines.backends import self_test
from pairframe.errors import InputError


def test_every_engine_is_listed_with_versions_devices_and_numbers() -> None:
    found = {backend.name: backend for backend in pf.backends()}
    assert list(found)[:5] == ["grid", "pot", "ott", "torch", "oracle"]
    assert all(backend.available and not backend.why_not for backend in found.values())
    assert dict(found["ott"].versions).keys() == {"ott-jax", "jax", "jaxlib"}
    assert found["oracle"].dtypes == ("float64",)
    assert found["torch"].dtypes == ("float64", "float32")
    assert all(backend.devices[0] == "cpu" for backend in found.values())
    assert "POT 0." in repr(found["pot"])


def test_a_missing_library_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})
    find = registry.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda module: None if module == "ot" else find(module))
    missing = next(backend for backend in pf.backends() if backend.name == "pot")
    assert not missing.available
    assert "pip install 'pairframe[pot]'" in missing.why_not
    assert "not available" in repr(missing)


def test_less_precise_numbers_need_a_larger_epsilon() -> None:
    ott = next(backend for backend in pf.backends() if backend.name == "ott")
    assert ott.smallest_epsilon((256, 576), "float32") > 1e4 * ott.smallest_epsilon((256, 576), "float64")
    assert ott.smallest_epsilon((512, 1152)) == pytest.approx(4 * ott.smallest_epsilon((256, 576)), rel=0.01)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_self_test_holds_an_engine_against_the_oracle(dtype: str) -> None:
    done = self_test("grid", dtype)
    assert done.passed
    assert done.dtype == dtype
    assert done.objective_error < 1e-6


def test_the_doctor_prints_a_table_and_json() -> None:
    printed = CliRunner().invoke(app, ["doctor", "--no-test", "--size", "64x64"])
    assert printed.exit_code == 0
    assert "not tested" in printed.output.replace("\n", " ")
    told = json.loads(CliRunner().invoke(app, ["doctor", "--json", "--no-test"]).output)
    assert [engine["name"] for engine in told["engines"]][:2] == ["grid", "pot"]
    assert told["size_hw"] == [256, 576]


@pytest.mark.parametrize("text", ["256", "0x5", "ax4", "3x4x5", "-3x4"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"HEIGHTxWIDTH.*--size 256x576"):
        parse_size(text)
