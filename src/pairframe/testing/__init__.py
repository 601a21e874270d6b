"""TESTING: shapes with known answers, and the suite every engine must pass, also those of other packages.

Sizes and seeds come in, arrays and truths go out. It knows no files and no command line.
"""

from pairframe.testing.agreement import Agreement, agreement
from pairframe.testing.cells import CellScene, cell_scene
from pairframe.testing.closed_forms import Gaussian, GaussianAnswer, unbalanced_gaussians
from pairframe.testing.conformance import EngineSuite
from pairframe.testing.planted import PlantedPair, planted_pair
from pairframe.testing.planted_cohort import PlantedFrame, planted_cohort
from pairframe.testing.problems import CASES, Case
from pairframe.testing.shapes import disc, embryo, growing_embryo, tiny_and_huge_embryo, turned_embryo
from pairframe.testing.symmetric import SymmetricPair, symmetric_pair
from pairframe.testing.volumes import ball, growing_tube

__all__ = [
    "CASES",
    "Agreement",
    "Case",
    "CellScene",
    "EngineSuite",
    "Gaussian",
    "GaussianAnswer",
    "PlantedFrame",
    "PlantedPair",
    "SymmetricPair",
    "agreement",
    "ball",
    "cell_scene",
    "disc",
    "embryo",
    "growing_embryo",
    "growing_tube",
    "planted_cohort",
    "planted_pair",
    "symmetric_pair",
    "tiny_and_huge_embryo",
    "turned_embryo",
    "unbalanced_gaussians",
]
