"""The pairs of a batch, side by side on the cores."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np

from pairframe.losses.pair import PairSettings, SelfValue, pair_value, self_value
from pairframe.parallel.threads import at_most, n_threads
from pairframe.types import Float

Result = TypeVar("Result")
_REMEMBERED = 4096  # self-values of targets, one number each
_remembered: OrderedDict[str, float] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, eq=False)
class BatchValue:
    """Divergences (n,), their derivatives (n, H, W) if they were asked for, and how many solves did not converge."""

    values: Float
    gradients_a: Float | None
    gradients_b: Float | None
    n_open: int


def batch_values(a: Float, b: Float, settings: PairSettings, wants: tuple[bool, bool]) -> BatchValue:
    """The divergences of images a and b (n, H, W), pair by pair."""
    gradients = [np.empty(a.shape) if one else None for one in wants]

    def one(k: int) -> tuple[float, bool]:
        known = None if wants[1] else _target_value(b[k], settings)
        found = pair_value(a[k], b[k], settings, wants, known)
        for goal, gradient in zip(gradients, (found.gradient_a, found.gradient_b), strict=True):
            if goal is not None:
                goal[k] = gradient
        return found.value, found.is_converged

    found = in_threads(one, len(a))
    values = np.array([value for value, _ in found])
    return BatchValue(values, gradients[0], gradients[1], sum(not good for _, good in found))


def in_threads(job: Callable[[int], Result], count: int) -> list[Result]:
    """Run job(0), ..., job(count - 1), one per core at a time; each uses one thread itself."""
    threads = min(n_threads(), count)
    if threads == 1:
        return [job(k) for k in range(count)]

    def alone(k: int) -> Result:
        with at_most(1):
            return job(k)

    with ThreadPoolExecutor(threads, "pairframe-losses") as pool:
        return list(pool.map(alone, range(count)))


def _target_value(mass: Float, settings: PairSettings) -> SelfValue:
    """The self-value of a target, remembered: in training the same targets come back in every epoch."""
    key = hashlib.sha256(repr((mass.shape, settings)).encode() + np.ascontiguousarray(mass).tobytes()).hexdigest()
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
            return SelfValue(_remembered[key], None)
    found = self_value(mass, settings, wants_gradient=False)
    with _lock:
        _remembered[key] = found.value
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)
    return found


def forget() -> None:
    """Forget the self-values of all targets."""
    with _lock:
        _remembered.clear()
