"""How long work reports how far it is, and the bar that shows it to whoever is watching."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

ShowBar = Callable[[str, int, "int | None"], None]


class Progress(Protocol):
    """A callback that is called now and then, and after the last item."""

    def __call__(self, task: str, done: int, total: int, item: str = "", /) -> None:
        """Report that `done` of `total` items of `task` are finished; `item` names the last one."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which can show a bar below a cell."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def is_watched(stream: TextIO | None = None) -> bool:
    """Whether a person sees a bar: in a notebook, or if `stream` (standard error) is a terminal."""
    return in_notebook() or (sys.stderr if stream is None else stream).isatty()


@contextmanager
def progress_bar(stream: TextIO | None = None) -> Iterator[ShowBar]:
    """Yield a callable (text, done, total or None) that moves a bar, in the notebook or on the terminal."""
    if in_notebook():
        yield _notebook_bar()
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=Console(file=sys.stderr if stream is None else stream), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)


@contextmanager
def bar_if_watched(wanted: bool | None) -> Iterator[ShowBar]:
    """The same, or a callable that shows nothing: if not wanted, or if None and no person is watching."""
    if is_watched() if wanted is None else wanted:
        with progress_bar() as show:
            yield show
    else:
        yield lambda text, done, total: None


def _notebook_bar() -> ShowBar:
    """A bar of HTML, which needs no widgets. The last text stays."""
    from IPython.display import HTML, display

    handle = display(HTML("starting"), display_id=True)

    def show(text: str, done: int, total: int | None) -> None:
        bar = f'<progress value="{done}" max="{total}"></progress> ' if total is not None and done < total else ""
        handle.update(HTML(f"{bar}{html.escape(text)}"))

    return show
