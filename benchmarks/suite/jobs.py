"""The jobs that a contestant's process answers."""

from __future__ import annotations

from typing import Any

from suite.contestants import Answer
from suite.ours import compare_many_once, compare_once
from suite.race import find, memory, timed

JOBS = {
    "find": find,
    "timed": timed,
    "memory": memory,
    "compare": compare_once,
    "compare_many": compare_many_once,
}


def answer(setting: dict[str, Any]) -> Answer:
    """Run the job that ``setting["job"]`` names with the rest of the setting."""
    return JOBS[setting.pop("job")](setting)
