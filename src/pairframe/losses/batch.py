"""The pairs of a batch, side by side on the cores."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TypeVar

import numpy as np

from pairframe.losses.pair import PairSettings, PairValue, SelfValue, mass_box, pair_value, self_value
from pairframe.parallel.in_order import in_order
from pairframe.parallel.threads import at_most, n_threads
from pairframe.types import Float

Task = TypeVar("Task")
Result = TypeVar("Result")
_REMEMBERED = 4096  # self-values of targets, one number each
_remembered: OrderedDict[str, float] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, eq=False)
class BatchValue:
    """Divergences (n,) and their derivatives (n, H, W), if they were asked for.

    Of the pairs that did not converge: how many they are, their largest error, and most kernel applications.
    """

    values: Float
    gradients_a: Float | None
    gradients_b: Float | None
    n_open: int
    worst_error: float
    most_iterations: int


def batch_values(a: Float, b: Float, settings: PairSettings, wants: tuple[bool, bool], jobs: int) -> BatchValue:
    """The divergences of images a and b (n, H, W), pair by pair, on so many processes."""
    keys = [None if wants[1] else _key(mass, settings) for mass in b]
    # One target for several images is solved once, before them.
    shared = [key for key, count in Counter(keys).items() if key is not None and count > 1 and _recall(key) is None]
    owns = [(b[keys.index(key)], settings) for key in shared]
    for key, own in zip(shared, side_by_side(_own_value, owns, jobs), strict=True):
        if own.error <= settings.options.tol:  # another one is solved again by every pair that needs it, which says so
            _remember(key, own.value)
    tasks = [(a[k], b[k], settings, wants, _recall(key)) for k, key in enumerate(keys)]
    gradients = [np.empty(a.shape) if one else None for one in wants]
    values = np.empty(len(a))
    not_converged: list[PairValue] = []
    for k, found in enumerate(side_by_side(_pair_value, tasks, jobs)):
        values[k] = found.value
        if not found.error <= settings.options.tol:
            not_converged.append(found)
        for goal, gradient in zip(gradients, (found.gradient_a, found.gradient_b), strict=True):
            if goal is not None:
                goal[k] = gradient
        if found.own_b is not None and found.own_b.error <= settings.options.tol:
            _remember(keys[k], found.own_b.value)
    return BatchValue(
        values,
        gradients[0],
        gradients[1],
        n_open=len(not_converged),
        worst_error=max((one.error for one in not_converged), default=0.0),
        most_iterations=max((one.iterations for one in not_converged), default=0),
    )


def side_by_side(work: Callable[[Task], Result], tasks: list[Task], jobs: int) -> Iterable[Result]:
    """The results of all tasks in order: in the threads of this process if `jobs` is 1, otherwise in so many processes."""
    if jobs > 1 and len(tasks) > 1:
        return in_order(partial(_of_each, work), iter(tasks), len(tasks), jobs, workers_stay=True)
    threads = min(n_threads(), len(tasks))
    if threads <= 1:
        return map(work, tasks)

    def alone(task: Task) -> Result:
        with at_most(1):
            return work(task)

    with ThreadPoolExecutor(threads, "pairframe-losses") as pool:
        return list(pool.map(alone, tasks))


def _of_each(work: Callable[[Task], Result], tasks: list[Task]) -> list[Result]:
    return [work(task) for task in tasks]


def _pair_value(task: tuple[Float, Float, PairSettings, tuple[bool, bool], float | None]) -> PairValue:
    return pair_value(*task)


def _own_value(task: tuple[Float, PairSettings]) -> SelfValue:
    return self_value(*task, wants_gradient=False)


# Self-values of targets are remembered: in training the same targets come back in every epoch.


def _key(mass: Float, settings: PairSettings) -> str:
    """One for all images with the same mass, wherever it is: only the rectangle around it is solved."""
    own = np.ascontiguousarray(mass[mass_box(mass)])
    found = hashlib.blake2b(repr((own.shape, settings)).encode())
    found.update(own.data)
    return found.hexdigest()


def _recall(key: str | None) -> float | None:
    with _lock:
        if key is None or key not in _remembered:
            return None
        _remembered.move_to_end(key)
        return _remembered[key]


def _remember(key: str | None, value: float) -> None:
    if key is None:
        return
    with _lock:
        _remembered[key] = value
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)


def forget() -> None:
    """Forget the self-values of all targets."""
    with _lock:
        _remembered.clear()
