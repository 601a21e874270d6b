"""The OTT engine: OTT-JAX's Sinkhorn step, on a CPU, GPU or TPU, on the objective that every engine has.

A `TransportProblem` comes in, a certified `Solution` goes out.
It must not know about masks, files or micrometres. Only `compiled` and `devices` touch jax, on the first solve.
"""

from importlib.util import find_spec

from pairframe.errors import MissingExtraError

if find_spec("ott") is None or find_spec("jax") is None:
    raise MissingExtraError(
        "ott-jax to be installed, which the engine 'ott' needs", "no such module", "pip install 'pairframe[ott]'"
    )

from pairframe.engines.ott.engine import OttEngine

__all__ = ["OttEngine"]
