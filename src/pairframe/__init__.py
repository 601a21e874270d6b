"""Compare image masks by unbalanced optimal transport.

Every public name is loaded on first use, so ``import pairframe`` is instant and
loads no numpy, torch, jax, dask, matplotlib or pandas. ``__init__.pyi`` tells type checkers the same list.
"""

from importlib import import_module as _import_module

from pairframe._version import __version__ as __version__

_HOME_OF = {
    "Mask": "pairframe.masks",
    "read_mask": "pairframe.masks",
    "write_mask": "pairframe.masks",
    "clean_mask": "pairframe.masks",
    "Pose": "pairframe.alignment",
    "align": "pairframe.alignment",
    "canonical_pose": "pairframe.alignment",
    "align_cohort": "pairframe.cohort",
    "stage_drift": "pairframe.alignment",
    "BoxYX": "pairframe.frame",
    "GridTransform": "pairframe.frame",
    "propose_bucket_shapes": "pairframe.frame",
    "TransportConfig": "pairframe.problem",
    "Status": "pairframe.engines",
    "solve": "pairframe.engines",
    "backends": "pairframe.engines.backends",
    "PlanOperator": "pairframe.maps",
    "ImageLoss": "pairframe.losses",
    "W2Bounds": "pairframe.exact",
    "w2": "pairframe.exact",
    "Sweep": "pairframe.results",
    "TransportResult": "pairframe.results",
    "load": "pairframe.results",
    "BodyAxis": "pairframe.axis",
    "axis_profile": "pairframe.axis",
    "body_axis": "pairframe.axis",
    "radial_profile": "pairframe.axis",
    "series_table": "pairframe.analysis.series",
    "compare": "pairframe.pipeline",
    "compare_many": "pairframe.pipeline",
    "divergence": "pairframe.pipeline",
    "flow_table": "pairframe.regions",
    "sweep": "pairframe.pipeline",
    "PairframeError": "pairframe.errors",
}

__all__ = ["__version__", *_HOME_OF]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pairframe' has no attribute {name!r}")
    value = getattr(_import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
