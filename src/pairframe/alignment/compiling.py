"""The notice that explains the wait while the passes of the alignment are compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from numba.core.event import install_listener

from pairframe.compiler import CompileNotice
from pairframe.parallel.processes import QUIET

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def announced(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Print a notice, once in a process, if a call of `function` has to compile passes of the alignment."""

    @wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Answer:
        with install_listener("numba:compile", _notice()):
            return function(*args, **options)

    return call


@cache
def _notice() -> Any:
    return CompileNotice("the alignment", "", 10, "pairframe.alignment.", is_quiet=QUIET in os.environ)
