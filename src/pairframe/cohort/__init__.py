"""A list of masks comes in; a folder of results goes out, with every pair once, compared or failed.

It repeats `compare` for many pairs, in local processes or on a Dask cluster, and can be resumed at any moment. It must not
know how a pair is solved.
"""

from pairframe.cohort.align.runner import AlignedCohort, align_cohort
from pairframe.cohort.inputs.columns import ColumnMap
from pairframe.cohort.inputs.sources import read_tasks
from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.cohort.run.runner import CohortSummary, run_cohort

__all__ = [
    "AlignedCohort",
    "CohortSummary",
    "ColumnMap",
    "MaskRef",
    "PairTask",
    "align_cohort",
    "read_tasks",
    "run_cohort",
]
