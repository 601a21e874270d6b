"""Counts the kernel applications of the grid engine and its maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pairframe.engines.grid.kernel import SupportKernel


def applications(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows by one name with every application of a kernel from here on."""
    calls: list[str] = []

    def counted(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls.append(name)
            return run(*args)

        return call

    for name in ("log_sum", "log_sum_and_means"):
        monkeypatch.setattr(SupportKernel, name, counted(name, getattr(SupportKernel, name)))
    return calls
