"""PIPELINE: two masks and a `TransportConfig` come in, a `TransportResult` goes out.

Its modules are the stages of one comparison: read, frame, solve, maps, result. `compare` runs them in order, `many`
repeats it for many pairs and `sweep` for many reaches and blurs. It must not know how results are kept on disk or shown.
"""

from pairframe.pipeline.compare import compare, divergence
from pairframe.pipeline.frame import frame_of
from pairframe.pipeline.many import compare_many, iter_results
from pairframe.pipeline.sweep import sweep

__all__ = ["compare", "compare_many", "divergence", "frame_of", "iter_results", "sweep"]
