"""Parts shared by the scripts: contestants in their own processes, and results with machine, versions and commit.

They build on the same parts of `suite`, which measures the engines against the peers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from suite import contestants
from suite.contestants import serve
from suite.machine import provenance
from suite.memory import peak_mb_of

__all__ = ["OUT", "Contestant", "peak_extra_mb_of", "provenance", "serve", "summary", "write_json"]

OUT = Path(__file__).parent / "out"


def write_json(name: str, content: dict[str, Any]) -> Path:
    """Write benchmarks/out/NAME.json with machine, versions and commit beside the figures."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps({"benchmark": name, **provenance(OUT.parent), **content}, indent=1) + "\n")
    print(f"written: {path.relative_to(OUT.parent.parent)}")
    return path


def peak_extra_mb_of(job: Callable[[], object]) -> float:
    """Peak resident memory while `job` runs, above what was resident before, in MB (Linux)."""
    return peak_mb_of(job)[0]


class Contestant(contestants.Contestant):
    """A process that keeps its imports and answers one job after the other: ``python SCRIPT --serve JOB``."""

    def __init__(self, script: str, job: str, **env: str) -> None:
        super().__init__([sys.executable, script, "--serve", job], env)

    def __call__(self, **setting: Any) -> dict[str, Any]:
        answer = self.ask_within(None, **setting)
        assert answer is not None
        return answer

    def ask_within(self, seconds: float | None, **setting: Any) -> dict[str, Any] | None:
        """The answer, or None when it takes longer: then the process is ended; asked again, it starts anew."""
        answer = self.ask(seconds, **setting)
        if answer.get("ended") == "died":
            raise SystemExit("a contestant died; its message is above")
        return None if answer.get("ended") == "cut off" else answer


def summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and spread of the answers' seconds."""
    times = sorted(answer["seconds"] for answer in answers)
    return {"median_s": median(times), "min_s": times[0], "max_s": times[-1], "last": answers[-1]}
