"""How long work reports how far it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A callback that is called now and then, and after the last item."""

    def __call__(self, task: str, done: int, total: int, item: str = "", /) -> None:
        """Report that `done` of `total` items of `task` are finished; `item` names the last one."""
