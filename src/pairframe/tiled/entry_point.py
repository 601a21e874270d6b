"""The frame around every public function: not traced by torch.compile, and not run where torch would hang."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from pairframe.tiled.errors import TiledError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_is_forked = False


def entry_point(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A public function of this folder.

    torch.compile leaves it as it is: the loops inspect values in every iteration, so tracing takes minutes and then fails.
    """
    untraced: Any = None

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        nonlocal untraced
        reason = why_torch_would_hang()
        if reason is not None:
            raise TiledError("a process that was not forked, or one thread of torch", *reason)
        if "torch._dynamo" not in sys.modules:  # nothing is compiled, and importing it takes as long as torch itself
            return function(*args, **kwargs)
        try:  # torch.compile cannot resume inside a try block, and so leaves this function alone too
            if untraced is None:
                untraced = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            result: Result = untraced(*args, **kwargs)
        except TiledError:
            raise
        return result

    marked: Any = call
    marked._torchdynamo_disable = True  # as torch.compiler.disable does, without importing it
    return call


def why_torch_would_hang() -> tuple[str, str] | None:
    """The reason, and a fix, if torch may wait for threads that a fork did not copy; else None.

    If the parent has computed with several threads, torch in a forked child waits for them as soon as an operation is large
    enough for threads. With one thread it does not.
    """
    if not _is_forked or torch.get_num_threads() == 1:
        return None
    return (
        "a forked child, in which torch waits for threads that exist in its parent only",
        "start processes with multiprocessing.get_context('spawn'), or call torch.set_num_threads(1) in the child",
    )


def _mark_child() -> None:
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_child)
