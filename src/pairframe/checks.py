"""Checks of arguments. Each returns the value in its plain type, or raises an error that names the field."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from operator import index
from typing import Any

import numpy as np

from pairframe.errors import ArgumentError, MissingExtraError, PairframeError

_LONGEST_SHOWN = 200  # characters of a value in a message
_LONGEST_NAME = 40
_LARGEST_INTEGER = 2**63 - 1  # of the tables and arrays that integers end up in


def shown(value: object) -> str:
    """`repr`, cut after 200 characters, or the type of a value that cannot be printed."""
    try:
        text = repr(value)
        return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    except (RecursionError, ValueError):  # ValueError: an integer of more than 4300 digits
        return f"a {type(value).__name__} that is too long to print"


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names in quotes, the first of a long list, and how many there are in all."""
    texts = [str(name) for name in names]
    short = [repr(text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}...") for text in texts[:most]]
    more = f", ... ({len(texts)} in all)" if len(texts) > most else ""
    return ", ".join(short) + more


def is_real_number(value: object) -> bool:
    """Whether `value` is a plain or numpy number: no text, no boolean, no array."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_positive_number(value: Any) -> bool:
    """Whether `value` is a real number above 0 and within float64."""
    return is_real_number(value) and bool(0 < value <= sys.float_info.max)


def integer(
    value: Any,
    field: str,
    least: int,
    most: int | None = None,
    *,
    fix: str = "give a whole number",
    error: type[PairframeError] = ArgumentError,
) -> int:
    """An integer of at least `least` and at most `most`, by default the largest of 64 bit."""
    try:
        number = least - 1 if isinstance(value, bool | np.bool_) else index(value)
    except TypeError:
        number = least - 1
    most = _LARGEST_INTEGER if most is None else most
    if not least <= number <= most:
        bound = f">= {least}" if number < least else f"<= {most}"
        raise error(f"{field} to be an integer {bound}", shown(value), fix, field)
    return number


def positive(
    value: Any,
    field: str,
    *,
    fix: str = "give a positive number",
    error: type[PairframeError] = ArgumentError,
) -> float:
    """A positive, finite number as a float."""
    try:
        number = math.nan if isinstance(value, bool | np.bool_ | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise error(f"a positive, finite {field}", shown(value), fix, field)
    return number


def choice(value: Any, field: str, choices: Sequence[str], *, error: type[PairframeError] = ArgumentError) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in choices:
        raise error(f"{field} to be one of {', '.join(choices)}", shown(value), "use one of these", field)
    return value


def boolean(value: Any, field: str, *, error: type[PairframeError] = ArgumentError) -> bool:
    """A plain or numpy boolean."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{field} to be true or false", shown(value), "give a boolean", field)
    return bool(value)


def within(value: Any, field: str, least: float, most: float, *, fix: str, error: type[PairframeError]) -> float:
    """A number from `least` to `most` as a float."""
    number = positive(value, field, fix=fix, error=error)
    if not least <= number <= most:
        raise error(f"{field} from {least:g} to {most:g}", shown(value), fix, field)
    return number


def library(module: str, extra: str, needed_by: str) -> None:
    """Require an optional library."""
    if find_spec(module) is None:
        raise MissingExtraError(
            f"{module} to be installed, which {needed_by} needs",
            "no such module",
            f"pip install 'pairframe[{extra}]'",
        )


@contextmanager
def naming(field: str) -> Iterator[None]:
    """Name the field in errors raised inside that do not name one themselves."""
    try:
        yield
    except PairframeError as error:
        if error.field:
            raise
        raise type(error)(error.expected, error.got, error.fix, field) from error
