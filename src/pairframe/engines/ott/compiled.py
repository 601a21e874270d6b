"""The code that runs on the device: OTT's Sinkhorn step and error, repeated. The only module that imports ott.

Two things of OTT-JAX 0.6.0 are worked around here, without touching the library:

- ``Grid`` adds the potential of the *output* pixel already while it sums along the first axis. If that pixel has
  no mass the potential is -inf, and every path through it is lost: with holes the sums are wrong (reported as
  https://github.com/ott-jax/ott/issues/185, closed; it is not float32). `HoledGrid` leaves it out.
- an online ``PointCloud`` (``batch_size=``) fails with jax >= 0.9: ``batching.is_vmappable`` is gone
  (https://github.com/ott-jax/ott/issues/700, fixed after 0.6.0). `SlicedCloud` sums in slices by `jax.lax.map`.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

with warnings.catch_warnings():  # OTT imports jaxopt, which warns that it is no longer maintained
    warnings.simplefilter("ignore", DeprecationWarning)
    from ott.geometry import costs, geometry, grid, pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import acceleration, sinkhorn

from pairframe.engines.ott.layout import Layout

Pair = tuple[jax.Array, jax.Array]


@jax.tree_util.register_pytree_node_class
class HoledGrid(grid.Grid):
    """A grid whose pixels need not have mass."""

    def apply_lse_kernel(  # type: ignore[override]  # OTT's annotation names the first of the two only
        self, f: jax.Array, g: jax.Array, eps: Any, vec: jax.Array | None = None, axis: int = 0
    ) -> Pair:
        """The sums alone; log-sum-exp is stable without the output's potential."""
        f, g = (jnp.zeros_like(f), g) if axis == 1 else (f, jnp.zeros_like(g))
        sums, sign = super().apply_lse_kernel(f, g, eps, vec, axis)
        return sums, sign


@jax.tree_util.register_pytree_node_class
class SlicedCloud(pointcloud.PointCloud):
    """A point cloud that looks at `batch_size` output points at a time."""

    def apply_lse_kernel(
        self, f: jax.Array, g: jax.Array, eps: Any, vec: jax.Array | None = None, axis: int = 0
    ) -> Pair:
        """The sums alone, slice by slice; `vec` is for plans applied to vectors, which we do elsewhere."""
        outputs, inputs, potential = (self.x, self.y, g) if axis == 1 else (self.y, self.x, f)

        def one(output: jax.Array) -> jax.Array:
            cost = self.cost_fn.all_pairs(output[None], inputs)[0]
            return jax.scipy.special.logsumexp((potential - cost) / eps, b=vec)

        sums = eps * jax.lax.map(one, outputs, batch_size=self.batch_size)
        return sums, jnp.ones_like(sums)


class Tau:
    """OTT's tau = lambda / (lambda + eps) as a traced value.

    OTT compares tau with 1 while it traces, which would compile a separate program for every ratio lambda/eps. Here only
    whether a side is balanced is known then, and 1 - tau is exact: float32 would lose it next to 1.
    """

    def __init__(self, value: jax.Array, complement: jax.Array, balanced: bool) -> None:
        self._value, self._complement, self._balanced = value, complement, balanced

    def __eq__(self, other: object) -> bool:
        return other == 1.0 and self._balanced

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: float) -> bool:
        return other == 1.0 and not self._balanced

    def __neg__(self) -> jax.Array:
        return -self._value

    def __mul__(self, other: jax.Array | float) -> jax.Array:
        return self._value * other

    __rmul__ = __mul__

    def __sub__(self, one: float) -> jax.Array:
        return -self._complement

    def __rsub__(self, one: float) -> jax.Array:
        return self._complement


def _geometry(layout: Layout, coordinates: Pair, epsilon: jax.Array) -> geometry.Geometry:
    first, second = coordinates
    if layout.geometry == "grid":
        return HoledGrid([first, second], epsilon=epsilon)
    cost = costs.SqEuclidean() if layout.metric == "sqeuclidean" else costs.Euclidean()
    if layout.geometry == "online":
        return SlicedCloud(first, second, cost_fn=cost, epsilon=epsilon, batch_size=layout.rows)
    return pointcloud.PointCloud(first, second, cost_fn=cost, epsilon=epsilon)


@partial(jax.jit, static_argnames=("layout",))
def advance(
    layout: Layout,
    coordinates: Pair,
    mass_a: jax.Array,
    mass_b: jax.Array,
    epsilon: jax.Array,
    taus: jax.Array,
    complements: jax.Array,
    f: jax.Array,
    g: jax.Array,
    momentum: jax.Array,
    count: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`count` iterations from (f, g): the potentials after them and OTT's error, in mass units."""
    tau_a, tau_b = (Tau(taus[side], complements[side], layout.balanced[side]) for side in (0, 1))
    problem = linear_problem.LinearProblem(
        _geometry(layout, coordinates, epsilon),
        mass_a,
        mass_b,
        tau_a=tau_a,  # type: ignore[arg-type]
        tau_b=tau_b,  # type: ignore[arg-type]
    )
    solver = sinkhorn.Sinkhorn(
        lse_mode=True,
        recenter_potentials=True,
        implicit_diff=None,
        momentum=acceleration.Momentum(value=momentum),  # type: ignore[call-arg]
    )
    state = jax.lax.fori_loop(
        0,
        count,
        lambda iteration, state: solver.lse_step(problem, state, iteration),
        sinkhorn.SinkhornState((f, g)),
    )
    error = state.solution_error(problem, (1,), lse_mode=True, parallel_dual_updates=False, recenter=True)[0]
    f, g = state.recenter(state.fu, state.gv, ot_prob=problem)
    return f, g, error
