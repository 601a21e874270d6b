"""`compare_many`: compare many pairs in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial

from pairframe import checks
from pairframe.errors import ArgumentError
from pairframe.parallel.in_order import in_order
from pairframe.parallel.threads import n_cores
from pairframe.pipeline.compare import checked_config, compare
from pairframe.pipeline.read import Pair
from pairframe.problem import TransportConfig
from pairframe.progress import bar_if_watched
from pairframe.results import TransportResult


def compare_many(
    pairs: Iterable[Pair],
    config: TransportConfig | None = None,
    *,
    jobs: int | None = None,
    on_result: Callable[[int, TransportResult], None] | None = None,
    progress: bool | None = None,
) -> list[TransportResult]:
    """Compare many pairs, with the same results as `compare`, in order.

    Parameters
    ----------
    pairs : iterable of (mask_a, mask_b)
        As for `compare`. The self-problem of a mask in several neighbouring pairs is solved once.
    jobs : int, optional
        Number of processes including this one, each with one thread. None means one per core, and 1 starts no others.
        The other processes import the main module, so a script must call this under ``if __name__ == "__main__":``.
    on_result : callable (index, result), optional
        Called in order, as soon as a result and all before it are available.
    progress : bool, optional
        Show a bar. None: if a person is watching, on a terminal or in a notebook.

    Notes
    -----
    The first pair that fails raises its error, with the number of the pair in a note. Later pairs are abandoned.
    """
    results: list[TransportResult] = []
    total = len(pairs) if isinstance(pairs, Sized) else None
    with bar_if_watched(progress) as show:
        show(_so_far(0, total), 0, total)
        for index, result in enumerate(iter_results(pairs, config, jobs=jobs)):
            if on_result is not None:
                on_result(index, result)
            results.append(result)
            show(_so_far(len(results), total), len(results), total)
    return results


def _so_far(done: int, total: int | None) -> str:
    return f"{done} pairs compared" if total is None else f"{done} of {total} pairs compared"


def iter_results(
    pairs: Iterable[Pair], config: TransportConfig | None = None, *, jobs: int | None = None
) -> Iterator[TransportResult]:
    """Yield the results of `compare_many` in order, holding only a few at a time."""
    config, jobs = checked_config(config), _checked_jobs(jobs)
    if not isinstance(pairs, Iterable):
        raise ArgumentError("an iterable of pairs (mask_a, mask_b)", type(pairs).__name__, "pass a list of pairs")
    listed = len(pairs) if hasattr(pairs, "__len__") else None  # type: ignore[arg-type]
    if jobs == 1 or listed in (0, 1):
        for index, pair in enumerate(pairs):
            yield _compare_numbered(index, pair, config)
        return
    yield from in_order(partial(_compare_chunk, config=config), enumerate(pairs), listed, jobs)


def _compare_numbered(index: int, pair: Pair, config: TransportConfig) -> TransportResult:
    try:
        mask_a, mask_b = pair
    except (TypeError, ValueError):
        raise ArgumentError(
            "every pair to be (mask_a, mask_b)", f"{type(pair).__name__} as pair number {index}", "pass a list of pairs"
        ) from None
    try:
        return compare(mask_a, mask_b, config)
    except Exception as error:  # any error, to add the number of the pair to it
        error.add_note(f"in pair number {index}")
        raise


def _compare_chunk(chunk: list[tuple[int, Pair]], config: TransportConfig) -> list[TransportResult]:
    return [_compare_numbered(index, pair, config) for index, pair in chunk]


def _checked_jobs(jobs: int | None) -> int:
    return n_cores() if jobs is None else checks.integer(jobs, "jobs", 1, fix="e.g. 2, or None for all cores")
