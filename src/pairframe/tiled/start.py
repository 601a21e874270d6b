"""Where a solve starts: a warm start, and larger epsilons to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pairframe.tiled.errors import TiledError
from pairframe.tiled.inputs import check_epsilon, check_storage
from pairframe.tiled.loop import Loop
from pairframe.tiled.output import SinkhornOutput

Start = tuple[Tensor, Tensor, Tensor]


def starting_point(init: Any, loop: Loop) -> Start:
    """(f0, g0, shift) in units of the epsilon of `loop`, from a former output or from potentials in cost units."""
    likes = loop.a.log_mass, loop.b.log_mass
    if isinstance(init, SinkhornOutput):
        ratio = init.epsilon / loop.epsilon
        given = init.side_a.potential(init.log_a_hat) * ratio, init.side_b.potential(init.log_b_hat) * ratio
        shift = init.shift * ratio
    else:
        if not isinstance(init, tuple | list) or len(init) != 2:
            raise TiledError(
                "init to be a SinkhornOutput or (f, g)", type(init).__name__, "pass out, or (out.f, out.g)"
            )
        given, shift = (init[0], init[1]), None
    found = []
    for name, one, like in zip(("f", "g"), given, likes, strict=True):
        check_storage(f"{name} of init", one)
        if not isinstance(one, Tensor) or one.shape != like.shape or one.device != like.device:
            got = f"shape {tuple(one.shape)} on {one.device}" if isinstance(one, Tensor) else type(one).__name__
            raise TiledError(
                f"{name} of init to be a tensor of shape {tuple(like.shape)} on {like.device}",
                got,
                "start from a problem of the same size",
            )
        if not bool(torch.isfinite(one).all()):
            raise TiledError(f"finite {name} of init", "NaN or inf", "use 0 where nothing is known")
        found.append(one.detach().to(like.dtype) / (1.0 if shift is not None else loop.epsilon))
    if shift is None:
        shift = torch.zeros(loop.cost.batch, dtype=torch.float64, device=loop.cost.device)
    return found[0], found[1], shift


def check_schedule(schedule: Any, epsilon: float) -> tuple[float, ...]:
    """Falling numbers above epsilon."""
    if isinstance(schedule, str) or not isinstance(schedule, Sequence):
        raise TiledError("schedule to be a sequence of epsilons", repr(schedule), "use e.g. schedule=(1.0, 0.3)")
    values = tuple(check_epsilon(one, torch.float64) for one in schedule)
    if any(one <= other for one, other in zip(values, (*values, epsilon)[1:], strict=True)):
        raise TiledError(
            f"a schedule that falls towards epsilon = {epsilon:g}", str(values), "use e.g. schedule=(1.0, 0.3)"
        )
    return values
