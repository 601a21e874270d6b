"""The default reach: the typical length of the objects.

A reach in pixels would depend on the camera. The length of the objects does not: one embryo may move by its own length,
and an organoid among fifty by about its own size, not by that of the largest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pairframe.masks.pieces import typical_length
from pairframe.problem.config import TransportConfig
from pairframe.problem.scales import Scales

# The default reach is at least this many blurs. A speck of a few pixels would otherwise not leave its own blur.
LEAST_BLURS = 4.0


def needs_reach(config: TransportConfig) -> bool:
    """Whether a comparison with this config needs the default reach."""
    is_given = any(
        value is not None
        for value in (config.reach_um, config.marginal_relaxation, config.moved_mass, config.moved_share)
    )
    return not is_given and set(config.penalties_ab) != {"balanced"}


def with_default_reach(
    config: TransportConfig,
    scales: Scales,
    *densities: NDArray[np.generic],
    px_size_um: float | None = None,
    spacing: tuple[float, ...] = (),
) -> TransportConfig:
    """The config with the default reach of these densities filled in, if it needs one.

    Parameters
    ----------
    scales : Scales
        The units of the comparison.
    densities : (H, W) each
        Source and target on one grid.
    px_size_um : float, optional
        Side of a pixel of the densities; None: that of a canonical pixel.
    spacing : one float per axis
        Sides of a voxel in units of `px_size_um`; () for square pixels.
    """
    if not needs_reach(config):
        return config
    px_size_um = scales.px_size_um if px_size_um is None else px_size_um
    length_um = typical_length(*densities, spacing=spacing) * px_size_um
    return replace(config, reach_um=default_reach_um(config, scales, length_um))


def default_reach_um(config: TransportConfig, scales: Scales, typical_length_um: float) -> float:
    """The default reach for objects of this length, um; see `LEAST_BLURS`."""
    blur_um = scales.length_um_from_cost_work(scales.epsilon_work(config.epsilon, config.blur_um))
    return max(typical_length_um, LEAST_BLURS * blur_um)
