"""`pairframe doctor` says what is merely optional and what is wrong, and does not mix them up."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from pairframe.cli import doctor as doctor_command
from pairframe.cli.app import app
from pairframe.engines import registry


def doctor(*options: str) -> str:
    done = CliRunner().invoke(app, ["doctor", "--no-test", "--size", "64x64", *options])
    assert done.exit_code == 0
    return done.output


def test_an_engine_that_is_not_installed_is_an_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})
    find = registry.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda module: None if module == "ot" else find(module))
    told = doctor()
    assert "pot: optional, not installed; `pip install 'pairframe[pot]'`\n" in told
    assert not any(word in told for word in ("ERROR", "DOES NOT WORK", "expected", "To fix"))
    (pot,) = [engine for engine in json.loads(doctor("--json"))["engines"] if engine["name"] == "pot"]
    assert (pot["available"], pot["is_missing_extra"]) == (False, True)


@pytest.mark.parametrize("name", ["grid", "pot"])
def test_an_engine_that_is_there_and_broken_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})
    load = registry.import_module

    def broken(module: str) -> object:
        if module == f"pairframe.engines.{name}":
            raise ImportError("libsomething.so: wrong version")
        return load(module)

    monkeypatch.setattr(registry, "import_module", broken)
    told = doctor()
    assert f"{name}: ERROR: expected the engine '{name}' to load, got libsomething.so: wrong version. To fix: " in told
    assert "optional" not in told
    (engine,) = [engine for engine in json.loads(doctor("--json"))["engines"] if engine["name"] == name]
    assert (engine["available"], engine["is_missing_extra"]) == (False, False)


def test_the_alignment_is_tested_against_a_planted_pose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "backends", list)
    found = doctor_command.examine((64, 64))["alignment"]
    assert found["passed"]
    assert 0 <= found["turn_error_deg"] < 1
    assert found["seconds"] > 0
    monkeypatch.setattr(doctor_command, "_LARGEST_TURN_DEG", -1.0)
    done = CliRunner().invoke(app, ["doctor", "--size", "64x64"])
    assert done.exit_code == 1
    assert "alignment: FAILED" in done.output
    assert json.loads(doctor("--json"))["alignment"] is None
