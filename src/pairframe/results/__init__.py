"""KEEP: maps, solution and context come in, one frozen `TransportResult` goes out.

It owns the names and units of everything a person reads from a comparison.
It must not know how a problem is solved, nor how results are shown.
"""

from pairframe.results.result import TransportResult, WorkMaps

__all__ = ["TransportResult", "WorkMaps"]
