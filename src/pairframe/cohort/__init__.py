"""A list of masks comes in; a folder of results goes out: every pair once, good or failed, resumable at any moment.

It repeats `compare` for many pairs, in local processes or on a Dask cluster. It must not know how a pair is solved.
"""

from pairframe.cohort.runner import CohortSummary, run_cohort
from pairframe.cohort.sources import read_tasks
from pairframe.cohort.tasks import MaskRef, PairTask

__all__ = ["CohortSummary", "MaskRef", "PairTask", "read_tasks", "run_cohort"]
