"""Names and text of a config: unknown fields are named with the nearest known one, and values are written as TOML."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from pairframe import checks
from pairframe.errors import ConfigError

Class = TypeVar("Class", bound=type)


def naming_unknown_fields(config_class: Class) -> Class:
    """A field that does not exist is an error of ours, with the nearest one that does."""
    plain_init: Any = vars(config_class)["__init__"]

    @wraps(plain_init)
    def __init__(self: Any, *values: Any, **named: Any) -> None:
        check_names(config_class, named)
        plain_init(self, *values, **named)

    type.__setattr__(config_class, "__init__", __init__)
    return config_class


def check_names(config_class: type, values: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(config_class)]
    for name in values:
        if name not in known:
            # A word of the name is as good as its spelling: `blur` is `blur_um`.
            beginning = [field for field in known if isinstance(name, str) and name and field.startswith(name.lower())]
            close = beginning or difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)
            raise ConfigError("a field of TransportConfig", repr(name), f"did you mean {close[0]!r}?")


def check_is_text(text: object, what: str, writer: str) -> None:
    if not isinstance(text, str | bytes | bytearray) or (what == "TOML" and not isinstance(text, str)):
        raise ConfigError(
            f"the {what} of a TransportConfig as text", checks.shown(text)[:80], f"write it with {writer}"
        )


def toml(value: Any) -> str:
    """A scalar, a list or one flat table as TOML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
