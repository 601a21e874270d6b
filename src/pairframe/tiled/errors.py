"""The error and the warning of the tiled engine."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

import torch

_NOT_THE_CALLER = tuple(str(Path(file).parent) for file in (__file__, torch.__file__))


class TiledError(ValueError):
    """Input that the tiled engine cannot use.

    Parameters
    ----------
    expected, got, fix : str
        Three short clauses, also available as attributes. They are the only ``args``, so the error can be pickled.
    """

    def __init__(self, expected: str, got: str, fix: str) -> None:
        super().__init__(expected, got, fix)
        self.expected = expected
        self.got = got
        self.fix = fix

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}. To fix: {self.fix}"


class NotConvergedWarning(UserWarning):
    """A gradient is less exact than its mode promises, because a solve stopped early."""


def warn_not_converged(message: str, *folders: str) -> None:
    """Warn at the line that called into this folder or one of `folders`, or that called torch for a gradient."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith((*_NOT_THE_CALLER, *folders)):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, NotConvergedWarning, stacklevel=level)
