"""The marginal penalties, one class and one file each, and the table that finds them by name."""

from __future__ import annotations

from typing import Any

from pairframe.errors import ProblemError
from pairframe.problem.penalties.balanced import Balanced
from pairframe.problem.penalties.base import Penalty, RelaxedPenalty
from pairframe.problem.penalties.kl import KL
from pairframe.problem.penalties.partial import Partial
from pairframe.problem.penalties.tv import TV

__all__ = ["KL", "PENALTIES", "TV", "Balanced", "Partial", "Penalty", "RelaxedPenalty", "penalty_class", "penalty_of"]

_BY_NAME: dict[str, type[Penalty]] = {one.name: one for one in (KL, TV, Partial, Balanced)}
PENALTIES = tuple(_BY_NAME)


def penalty_class(name: Any) -> type[Penalty]:
    """The penalty of that name."""
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ProblemError(f"a penalty: {', '.join(PENALTIES)}", repr(name), "use one of these names")
    return _BY_NAME[name]


def penalty_of(name: str, marginal_relaxation: float) -> Penalty:
    """The penalty of that name with that lambda, in cost units; ``balanced`` does not use it."""
    return penalty_class(name).from_relaxation(marginal_relaxation)
