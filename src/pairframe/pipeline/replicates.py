"""Replicates: several segmentations of the same objects, whose comparisons show how uncertain the outlines are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pairframe.errors import ConfigError, MaskError
from pairframe.masks import Mask
from pairframe.pipeline.error_bars import numbers_of
from pairframe.pipeline.intervals import interval_of_replicates
from pairframe.pipeline.read import MaskLike, as_mask
from pairframe.problem import TransportConfig
from pairframe.results.error_bars import QUANTITIES, ErrorBars
from pairframe.results.result import TransportResult


def is_replicated(mask: Any) -> bool:
    """Whether this is a list of masks; a nested list of numbers is one mask."""
    if not isinstance(mask, list | tuple):
        return False
    return any(isinstance(one, Mask | str | os.PathLike) or np.ndim(one) >= 2 for one in mask)


def read_replicates(masks: Sequence[MaskLike], side: str, config: TransportConfig) -> list[Mask]:
    """The segmentations of one side; an error unless all are on one canvas."""
    found = [as_mask(mask, config) for mask in masks]
    for number, mask in enumerate(found[1:], start=2):
        if mask.shape_hw != found[0].shape_hw:
            raise MaskError(
                f"all segmentations of the {side} on one canvas",
                f"{found[0].shape_hw} for the first and {mask.shape_hw} for number {number}",
                "crop or pad them to the same shape",
            )
    return found


def compare_replicates(
    sources: Sequence[Mask],
    targets: Sequence[Mask],
    config: TransportConfig,
    compare_one: Callable[[Mask, Mask, TransportConfig], TransportResult],
) -> TransportResult:
    """The result of the first segmentations, with error bars from all of them.

    Segmentations of both sides are paired in order; those of the shorter list are used again.

    Parameters
    ----------
    compare_one : callable (source, target, config)
        Compares one pair.
    """
    if config.rim_um is not None or config.rim_correlation_um is not None:
        raise ConfigError(
            "no rim_um with several segmentations",
            "both",
            "leave it out: the segmentations show the uncertainty",
            "rim_um",
        )
    plain = replace(config, error_bars=False)
    first = compare_one(sources[0], targets[0], plain)
    if not (first.has_answer and first.M_source > 0 and first.M_target > 0):
        return first
    n = max(len(sources), len(targets))
    if n == 1:
        return first
    # All are compared at the reach of the first, which may be a default.
    settled = plain if plain.moved_mass is not None or plain.moved_share is not None else first.config
    others = [compare_one(sources[k % len(sources)], targets[k % len(targets)], settled) for k in range(1, n)]
    numbers = np.array([numbers_of(result)[: len(QUANTITIES)] for result in (first, *others)])
    bars = {name: interval_of_replicates(name, numbers[:, place]) for place, name in enumerate(QUANTITIES)}
    return replace(first, error_bars=ErrorBars(**bars, rim_um=np.nan, correlation_um=np.nan, n_draws=n))
