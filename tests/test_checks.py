"""Checks of arguments: the plain value comes back, everything else is an error that names the field."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pairframe import checks
from pairframe.errors import ArgumentError, ConfigError, MaskError, PairframeError


@pytest.mark.parametrize("value", [3, np.int32(3), np.uint8(3)])
def test_an_integer_of_any_kind_becomes_a_plain_one(value: Any) -> None:
    found = checks.integer(value, "jobs", 1)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize(
    ("value", "bound"),
    [(0, ">= 1"), (True, ">= 1"), (1.0, ">= 1"), ("2", ">= 1"), (None, ">= 1"), (np.bool_(True), ">= 1"), (9, "<= 8")],
)
def test_everything_else_is_no_integer_in_the_range(value: Any, bound: str) -> None:
    with pytest.raises(ConfigError, match=f"expected jobs to be an integer {bound}, got .*To fix: e.g. 2") as found:
        checks.integer(value, "jobs", 1, 8, fix="e.g. 2", error=ConfigError)
    assert found.value.field == "jobs"


def test_a_positive_number_becomes_a_float() -> None:
    assert [checks.positive(value, "tol") for value in (2, 0.5, np.float32(0.25))] == [2.0, 0.5, 0.25]
    assert type(checks.positive(np.float32(1), "tol")) is float
    for bad in (0, -1, float("nan"), float("inf"), True, "1", b"1", [1], None, 10**400):
        with pytest.raises(ArgumentError, match="a positive, finite tol, got") as found:
            checks.positive(bad, "tol")
        assert found.value.field == "tol"


def test_a_choice_is_one_of_the_names() -> None:
    assert checks.choice("kl", "penalty", ("kl", "tv")) == "kl"
    for bad in ("l2", None, ["kl"]):
        with pytest.raises(ArgumentError, match="penalty to be one of kl, tv, got"):
            checks.choice(bad, "penalty", ("kl", "tv"))


def test_a_boolean_is_no_number_and_no_text() -> None:
    assert checks.boolean(np.bool_(True), "debug") is True
    for bad in (0, 1, "yes", None):
        with pytest.raises(ArgumentError, match="debug to be true or false"):
            checks.boolean(bad, "debug")


def test_an_error_without_a_field_gets_one_and_an_error_with_a_field_keeps_it() -> None:
    for own, named in (("", "mass_mode"), ("width_um", "width_um")):
        with pytest.raises(MaskError, match=r"expected a, got b\. To fix: c") as found, checks.naming("mass_mode"):
            raise MaskError("a", "b", "c", own)
        assert found.value.field == named
        assert isinstance(found.value, PairframeError)
