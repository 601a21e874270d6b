"""KEEP: maps, solution and frame come in, one frozen `TransportResult` goes out, in memory or on disk.

It owns the names and units of every number that a comparison reports.
It must not know how a problem is solved or how results are drawn.
"""

from pairframe.results.result import TransportResult
from pairframe.results.rows import failed_row
from pairframe.results.store import ResultStore, load
from pairframe.results.sweep import Sweep
from pairframe.results.work_maps import WorkMaps

__all__ = ["ResultStore", "Sweep", "TransportResult", "WorkMaps", "failed_row", "load"]
