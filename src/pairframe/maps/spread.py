"""Maps of sampled masses, back on every pixel: each pixel shares the fate of the point that stood for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pairframe.engines.sampling import Sample
from pairframe.maps.accounting import FeasiblePart

Float = NDArray[np.float64]


def spread_part(part: FeasiblePart, sample_a: Sample, sample_b: Sample, mass_a: Float, mass_b: Float) -> FeasiblePart:
    """The feasible part of sampled masses on the whole masses (H, W) that they were sampled from.

    A point's mass is the sum over its pixels, so totals stay what they are: the books balance as before.
    """
    left, arrived = _shared_out(part.left, sample_a, mass_a), _shared_out(part.arrived, sample_b, mass_b)
    return replace(
        part,
        left=left,
        arrived=arrived,
        destroyed=np.maximum(mass_a - left, 0.0),
        created=np.maximum(mass_b - arrived, 0.0),
        left_share=sample_a.spread(part.left_share),
        shift_yx=sample_a.spread(part.shift_yx),
        cost_source=_shared_out(part.cost_source, sample_a, mass_a),
        cost_target=_shared_out(part.cost_target, sample_b, mass_b),
    )


def _shared_out(amount: Float, sample: Sample, mass: Float) -> Float:
    """An amount per point (H, W), shared out among its pixels by their mass."""
    per_mass = np.divide(amount, sample.mass, out=np.zeros(amount.shape), where=sample.mass > 0)
    shared: Float = sample.spread(per_mass) * mass
    return shared
