"""Reading a table starts no thread that could still be running when the program exits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.results_equal import unsolved_result

from pairframe.results import ResultStore

# A thread that releases the buffer of a Python file while the interpreter exits aborts the process with exit code -6.
# That takes a busy machine, so the test counts threads instead. The sum starts the thread of the allocator of pyarrow.
COUNT_THREADS = """
import os, sys
from pathlib import Path
import pandas, pyarrow.compute, pyarrow.parquet
from pairframe.cohort.inputs.tables import read_manifest_table
from pairframe.results import ResultStore
from pairframe.results.table import read_table, table_bytes, upsert

pyarrow.compute.sum(pyarrow.array(range(100_000)))
table, before = Path(sys.argv[1]), set(os.listdir("/proc/self/task"))
{read}
new = set(os.listdir("/proc/self/task")) - before
print([Path(f"/proc/self/task/{{thread}}/comm").read_text().strip() for thread in new])
"""


@pytest.mark.parametrize(
    "read",
    [
        "read_table(table)",
        "ResultStore(table.parent).table()",
        "ResultStore(table.parent).load('b')",
        "ResultStore(table.parent).commit(read_table(table).to_pylist())",
        "read_manifest_table(table)",
    ],
)
def test_reading_a_table_leaves_no_thread_behind(tmp_path: Path, read: str) -> None:
    store = ResultStore(tmp_path)
    store.commit([store.write_maps(unsolved_result(5), name) for name in "abc"])
    words = [sys.executable, "-c", COUNT_THREADS.format(read=read), str(store.table_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
