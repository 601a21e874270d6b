"""Maps of sampled masses on all pixels: each pixel takes the values of the point that represents it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pairframe.engines.sampling import Sample
from pairframe.maps.accounting import FeasiblePart
from pairframe.types import Float


def spread_part(part: FeasiblePart, sample_a: Sample, sample_b: Sample, mass_a: Float, mass_b: Float) -> FeasiblePart:
    """The feasible part of sampled masses on the whole masses that they were sampled from.

    A point's mass is the sum over its pixels, so totals do not change and the books still balance.
    """
    left, arrived = _divided(part.left, sample_a, mass_a), _divided(part.arrived, sample_b, mass_b)
    return replace(
        part,
        left=left,
        arrived=arrived,
        destroyed=np.maximum(mass_a - left, 0.0),
        created=np.maximum(mass_b - arrived, 0.0),
        left_share=sample_a.spread(part.left_share),
        displacement=sample_a.spread(part.displacement),
        cost_source=_divided(part.cost_source, sample_a, mass_a),
        cost_target=_divided(part.cost_target, sample_b, mass_b),
    )


def _divided(amount: Float, sample: Sample, mass: Float) -> Float:
    """An amount per point, divided among its pixels by their mass."""
    per_mass = np.divide(amount, sample.mass, out=np.zeros(amount.shape), where=sample.mass > 0)
    shared: Float = sample.spread(per_mass) * mass
    return shared
