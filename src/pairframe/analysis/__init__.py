"""A folder of results comes in; group means and differences go out, with p-values.

It works on stored maps and scalars; only distances between masks are solved anew. It draws nothing.
"""

from pairframe.analysis.analyze import CohortAnalysis, Comparison, analyze
from pairframe.analysis.distances import Distances, Embedding, classical_scaling
from pairframe.analysis.fields import Deviation, MeanField
from pairframe.analysis.hotspots import HotspotMap
from pairframe.analysis.scalars import ScalarTest

__all__ = [
    "CohortAnalysis",
    "Comparison",
    "Deviation",
    "Distances",
    "Embedding",
    "HotspotMap",
    "MeanField",
    "ScalarTest",
    "analyze",
    "classical_scaling",
]
