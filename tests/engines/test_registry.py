"""Engines are found by name, loaded on first use, and come from other packages too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pairframe import errors
from pairframe.engines import Engine, SolveOptions, Status, engine_names, get_engine, registry, solve
from pairframe.problem import KL, TransportProblem

THIRD_PARTY = """
from pairframe.engines import Engine, get_engine

class Echo(Engine):
    name = "echo"
    def supports(self, problem, options):
        return "it never does anything" if problem.epsilon > 5 else None
    def run(self, problem, options, init=None, progress=None):
        return get_engine("oracle").run(problem, options, init, progress)

not_an_engine = 3
"""
ENTRY_POINTS = """[pairframe.engines]
echo = third_party_engine:Echo
wrong = third_party_engine:not_an_engine
absent = third_party_engine:Absent
needy = third_party_that_is_not_installed:Engine
oracle = third_party_engine:Echo
"""


def problem_of(epsilon: float = 1.0) -> TransportProblem:
    penalty = KL(4.0)
    return TransportProblem(np.ones((2, 3)), np.ones((2, 3)), epsilon, penalty, penalty)


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A tiny installed distribution."""
    (tmp_path / "third_party_engine.py").write_text(THIRD_PARTY)
    info = tmp_path / "third_party_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_loaded", {})
    yield
    sys.modules.pop("third_party_engine", None)


def test_the_built_in_engines_are_listed() -> None:
    assert engine_names()[:5] == ("grid", "pot", "ott", "torch", "oracle")


def test_an_engine_is_loaded_once() -> None:
    assert get_engine("oracle") is get_engine("oracle")
    assert isinstance(get_engine("oracle"), Engine)


def test_an_unknown_engine_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(errors.EngineError, match=r"an engine: grid, pot, ott, torch, oracle.*got 'fast'"):
        solve(problem_of(), "fast")


def test_an_engine_of_another_package_is_found(third_party: None) -> None:
    assert {"echo", "grid"} <= set(engine_names())
    assert solve(problem_of(), "echo").status is Status.converged
    with pytest.raises(errors.UnsupportedProblemError, match="the engine 'echo' solves, got it never does anything"):
        solve(problem_of(epsilon=6.0), "echo")


def test_a_built_in_engine_cannot_be_replaced(third_party: None) -> None:
    assert type(get_engine("oracle")).__module__ == "pairframe.engines.oracle"
    assert engine_names().count("oracle") == 1


def test_a_broken_engine_says_what_is_broken(third_party: None) -> None:
    with pytest.raises(errors.EngineError, match=r"'wrong' to be a subclass of pairframe\.engines\.Engine, got 3"):
        get_engine("wrong")
    with pytest.raises(errors.EngineError, match=r"'absent' to load.*third_party_engine:Absent"):
        get_engine("absent")
    with pytest.raises(errors.EngineError, match=r"'needy' to load.*third_party_that_is_not_installed"):
        get_engine("needy")


def test_a_missing_library_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})
    monkeypatch.setattr(registry, "find_spec", lambda module: None)
    with pytest.raises(
        errors.MissingExtraError, match=r"ott-jax to be installed.*To fix: pip install 'pairframe\[ott\]'"
    ):
        get_engine("ott")
    assert get_engine("grid").name == "grid"


def test_whether_an_engine_can_be_had_is_known_without_loading_it() -> None:
    code = (
        "import sys; from pairframe.engines.registry import check_engine; check_engine('torch'); check_engine('grid')"
    )
    code += "; sys.exit('torch' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(errors.EngineError):
        registry.check_engine("gird")


def test_importing_the_engines_loads_no_solver_library() -> None:
    code = """
import sys
import pairframe.engines
loaded = [name for name in ("numba", "torch", "jax", "ot", "pairframe.engines.oracle") if name in sys.modules]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_status_has_advice() -> None:
    assert [str(status) for status in Status] == [
        "converged",
        "max_iterations",
        "empty_source",
        "empty_target",
        "impossible",
    ]
    for status in Status:
        assert len(status.advice) > 20
    assert "raise max_iterations" in Status.max_iterations.advice


BAD_OPTIONS = {
    "tol": ({"tol": 0}, "tol between 0 and 1, got 0"),
    "iterations": ({"max_iterations": 0}, "max_iterations to be an integer >= 1, got 0"),
    "iterations float": ({"max_iterations": 2.5}, "got 2.5"),
    "dtype": ({"dtype": "float16"}, "dtype to be one of float64, float32, got 'float16'"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(case: str) -> None:
    values, message = BAD_OPTIONS[case]
    with pytest.raises(errors.ArgumentError, match=message):
        SolveOptions(**values)
