"""The one error of the tiled engine: what was expected, what came, how to fix it."""

from __future__ import annotations


class TiledError(ValueError):
    """Input that the tiled engine cannot use.

    Parameters
    ----------
    expected, got, fix : str
        Three short clauses; they also stay readable as attributes. They are the
        only ``args``, so an error survives the trip between processes.
    """

    def __init__(self, expected: str, got: str, fix: str) -> None:
        super().__init__(expected, got, fix)
        self.expected = expected
        self.got = got
        self.fix = fix

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}. To fix: {self.fix}"
