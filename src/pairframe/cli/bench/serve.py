"""``python -m pairframe.cli.bench.serve``: a contestant's process."""

from __future__ import annotations

from typing import Any

from pairframe.cli.bench.contestants import Answer, serve
from pairframe.cli.bench.ours import compare_many_once, compare_once
from pairframe.cli.bench.race import find, memory, timed

JOBS = {
    "find": find,
    "timed": timed,
    "memory": memory,
    "compare": compare_once,
    "compare_many": compare_many_once,
}


def answer(setting: dict[str, Any]) -> Answer:
    """``{"job": NAME, ...}`` to what that job says."""
    return JOBS[setting.pop("job")](setting)


if __name__ == "__main__":
    serve(answer)
