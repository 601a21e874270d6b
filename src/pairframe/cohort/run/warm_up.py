"""`warm_up`: a tiny comparison that loads libraries and compiled code before the first pair of a process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pairframe.errors import PairframeError
from pairframe.masks import Mask
from pairframe.parallel.threads import at_most
from pairframe.pipeline.compare import compare
from pairframe.problem import TransportConfig
from pairframe.results.features import features_of
from pairframe.results.group import group_bytes
from pairframe.results.variables import attributes_of, variables_of

_MAX_ITERATIONS = 50  # enough to load all code


@lru_cache(maxsize=8)
def warm_up(config: TransportConfig) -> None:
    """Compare two masks of 8 x 8 pixels with `config`, once per process, and drop the result.

    A `PairframeError` is ignored, because the pairs will raise it too; any other error is raised.
    """
    is_density = config.mass.takes_density
    pixels = np.zeros((8, 8))
    pixels[1:6, 2:6] = 1.0
    source, target = (Mask.from_array(array, density=is_density) for array in (pixels, np.roll(pixels, 1, axis=0)))
    with suppress(PairframeError), at_most(1):
        result = compare(source, target, _for_any_frame(config))
        features_of(result)
        group_bytes(variables_of(result), attributes_of(result))


def _for_any_frame(config: TransportConfig) -> TransportConfig:
    """The same engine and problem, in a frame that holds a tiny mask."""
    return replace(
        config,
        crop_policy="union",
        override_pair_bbox=None,
        bucket_shapes=None,
        downsample_factor=1,
        pad=0,
        max_iterations=min(config.max_iterations, _MAX_ITERATIONS),
    )
