"""The momentum of Sinkhorn updates, estimated from the rate at which the error falls."""

from __future__ import annotations

import math

_SPOILT = 10.0  # an error this many times the best one: the momentum was too large
_LARGEST = 1.98
_RETREAT = 0.7  # factor on the excess over 1 after that
_RELIEF = 0.1  # the retreat is over once the error has fallen to this share
_STALLED_AFTER = 25  # chunks without a tenth of progress
_ROUNDING = {"float64": 1e-7, "float32": 2e-2}  # errors that rounding may cause; larger ones are slow convergence


class Relaxation:
    """Successive over-relaxation with the optimal factor of Young, estimated as it goes (Hageman and Young 1981).

    Near the solution, Sinkhorn contracts the error by rho an iteration. With momentum w it contracts by the mu that
    solves ``(mu + w - 1)^2 = mu w^2 rho``, and ``w = 2 / (1 + sqrt(1 - rho))`` makes mu least. So a measured mu
    gives rho, and rho the next w. Far from the solution a w that large may diverge; it is then reduced.
    """

    def __init__(self, dtype: str) -> None:
        self._rounding = _ROUNDING[dtype]
        self.momentum = 1.0
        self.best = math.inf
        self.failed = False  # even plain updates were not finite
        self._limit = _LARGEST
        self._retreat_until = 0.0
        self._previous: float | None = None
        self._milestone = math.inf
        self._idle = 0

    @property
    def stalled(self) -> bool:
        """Whether the error has stopped falling: the dtype has no more digits."""
        return self._idle >= _STALLED_AFTER and self.best <= self._rounding

    def observe(self, error: float, count: int) -> bool:
        """Take note of the error after `count` iterations; False if they diverged and should be dropped."""
        self._idle += 1
        if not error <= _SPOILT * self.best or not math.isfinite(error):
            self.failed = self.momentum == 1.0 and not math.isfinite(error)
            self._limit = 1.0 + _RETREAT * (self.momentum - 1.0)
            self._retreat_until = _RELIEF * self.best
            self.momentum, self._previous = 1.0, None
            return False
        if error < self._retreat_until:
            self._limit = _LARGEST
        if self._previous is not None and 0.0 < error < self._previous:
            self.momentum = max(self.momentum, min(self._limit, self._wanted((error / self._previous) ** (1 / count))))
        self._previous = error
        self.best = min(self.best, error)
        if error < 0.9 * self._milestone:
            self._milestone, self._idle = error, 0
        return True

    def _wanted(self, contraction: float) -> float:
        excess = self.momentum - 1.0
        if contraction <= excess:
            return self.momentum  # it oscillates: this is the best momentum already, or beyond
        rho = (contraction + excess) ** 2 / (contraction * self.momentum**2)
        return 2.0 / (1.0 + math.sqrt(max(1.0 - rho, 1e-6)))
