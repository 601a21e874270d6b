"""A folder of results comes in; what its groups have in common and where they differ goes out, with how sure that is.

It works on maps and scalars that are there already; only distances between masks are solved anew.
"""

from pairframe.cohort.analysis.analyze import CohortAnalysis, Comparison, analyze
from pairframe.cohort.analysis.distances import Distances, Embedding, classical_scaling
from pairframe.cohort.analysis.fields import Deviation, MeanField
from pairframe.cohort.analysis.hotspots import HotspotMap
from pairframe.cohort.analysis.scalars import ScalarTest

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
