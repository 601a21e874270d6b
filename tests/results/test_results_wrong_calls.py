"""A call that cannot be meant ends in an error of ours that says what to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pairframe as pf
from pairframe.errors import ArgumentError, ConfigError, FrameError, UnsupportedProblemError

MASK = np.eye(4)
Call: Any = Callable[[], Any]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pf.TransportConfig(blur=3), ConfigError, "got 'blur'. To fix: did you mean 'blur_um'"),  # type: ignore[call-arg]
        (lambda: pf.TransportConfig(px_size=3), ConfigError, "did you mean 'px_size_um'"),  # type: ignore[call-arg]
        (lambda: pf.TransportConfig(max_iteratons=3), ConfigError, "did you mean 'max_iterations'"),  # type: ignore[call-arg]
        (lambda: pf.TransportConfig.from_json(None), ConfigError, "the JSON of a TransportConfig as text, got None"),  # type: ignore[arg-type]
        (lambda: pf.TransportConfig.from_toml(None), ConfigError, "the TOML of a TransportConfig as text, got None"),  # type: ignore[arg-type]
        (lambda: pf.TransportConfig.from_toml(b"pad = 3"), ConfigError, "as text, got b'pad = 3'"),  # type: ignore[arg-type]
        (lambda: pf.compare(MASK, MASK, transform=3), FrameError, "a GridTransform, got int"),  # type: ignore[arg-type]
        (lambda: pf.solve(3), UnsupportedProblemError, "a TransportProblem, got int"),  # type: ignore[arg-type]
        (lambda: pf.compare_many(None), ArgumentError, "an iterable of pairs .mask_a, mask_b., got NoneType"),  # type: ignore[arg-type]
        (
            lambda: pf.compare(MASK, MASK, pf.TransportConfig(backend="oracle", device="cuda")),
            UnsupportedProblemError,
            "a device that the engine 'oracle' can use here.*leave out device='cuda'",
        ),
    ],
)
def test_wrong_calls_say_what_to_write(call: Call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_problem_that_no_device_helps_is_not_blamed_on_the_device() -> None:
    with pytest.raises(UnsupportedProblemError) as told:
        pf.compare(MASK, MASK, pf.TransportConfig(backend="grid", metric="euclidean", device="cpu"))
    assert "leave out device" not in str(told.value)


def test_the_fields_of_a_config_are_still_its_signature() -> None:
    names = list(inspect.signature(pf.TransportConfig).parameters)
    assert names[0] == "epsilon"
    assert names[-3:] == ["rim_um", "rim_correlation_um", "volume"]
    assert pf.TransportConfig(2.0).epsilon == 2.0


def test_iterations_may_differ_from_what_was_asked_for_by_a_round() -> None:
    source, target = np.eye(12), np.eye(12)[::-1]
    for asked in (1, 3, 6):
        result = pf.compare(source, target, pf.TransportConfig(max_iterations=asked, tol=1e-12, penalty="kl"))
        assert result.status == "max_iterations"
        assert abs(result.iterations - asked) <= 4
