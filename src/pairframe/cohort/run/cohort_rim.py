"""`with_rim`: the default uncertainty of outlines in an aligned cohort is a pixel of the original images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pairframe.cohort.inputs.tasks import PairTask
from pairframe.problem import TransportConfig
from pairframe.results.motion_words import COHORT_POSE

_PX_SIZE = f"{COHORT_POSE}original_px_size_um"


def with_rim(config: TransportConfig, tasks: Sequence[PairTask]) -> TransportConfig:
    """The config with the median pixel size of the original images as `rim_um`, if error bars are asked for without one.

    An outline is as uncertain as the image in which it was drawn. The pixels of the canvas are chosen by the user.
    """
    if not config.error_bars or config.rim_um is not None:
        return config
    cells = [task.carried.get(name) for task in tasks for name in (_PX_SIZE, f"{_PX_SIZE}_target")]
    sizes = [float(cell) for cell in cells if isinstance(cell, int | float) and cell > 0]
    return replace(config, rim_um=median(sizes)) if sizes else config
