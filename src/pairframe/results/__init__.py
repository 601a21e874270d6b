"""KEEP: maps, solution and context come in, one frozen `TransportResult` goes out.

It owns the names and units of everything a person reads from a comparison.
It must not know how a problem is solved, nor how results are shown.
"""

from pairframe.results.result import TransportResult, WorkMaps
from pairframe.results.rows import failed_row
from pairframe.results.store import ResultStore, load

__all__ = ["ResultStore", "TransportResult", "WorkMaps", "failed_row", "load"]
