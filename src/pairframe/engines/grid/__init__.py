"""The grid engine: squared Euclidean cost on a grid with any number of axes, full resolution, log-domain safe at any epsilon.

A `TransportProblem` comes in, a certified `Solution` goes out; it never builds an n x m array.
It must not know about masks, files or micrometres.
"""

from pairframe.engines.grid.engine import GridEngine

__all__ = ["GridEngine"]
