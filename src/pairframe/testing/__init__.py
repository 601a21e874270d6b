"""TESTING: shapes with known answers, for our tests, for the demo and for those who add an engine.

Sizes and seeds come in, arrays and truths go out. It knows no files and no command line.
"""

from pairframe.testing.closed_forms import Gaussian, GaussianAnswer, unbalanced_gaussians
from pairframe.testing.shapes import disc, embryo, growing_embryo, tiny_and_huge_embryo

__all__ = [
    "Gaussian",
    "GaussianAnswer",
    "disc",
    "embryo",
    "growing_embryo",
    "tiny_and_huge_embryo",
    "unbalanced_gaussians",
]
