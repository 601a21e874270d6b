"""Processes that keep their imports and answer one job after the other in lines of JSON; deadlines."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

Answer = dict[str, Any]
_PATIENCE_S = 5.0
SERVE = (sys.executable, str(Path(__file__).parents[1] / "run.py"), "--serve")


class Contestant:
    """One process, started at the first question and again after it was cut off or died.

    Parameters
    ----------
    command : sequence of str
        A program that calls `serve`.
    env : mapping, optional
        Added to the environment.
    """

    def __init__(self, command: Sequence[str] = SERVE, env: Mapping[str, str] | None = None) -> None:
        self._command, self._env = list(command), dict(env or {})
        self._process: subprocess.Popen[str] | None = None

    def ask(self, within_s: float | None, **setting: Any) -> Answer:
        """The answer, or ``{"ended": "cut off"}`` if it takes longer, or ``{"ended": "died", "why": ...}`` if the process dies."""
        if self._process is not None and self._process.poll() is not None:
            self._kill()  # it ended by itself since the last answer
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(setting) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], within_s)[0]:
            self._kill()
            return {"ended": "cut off", "why": f"no answer within {within_s:.0f} s"}
        line = process.stdout.readline()
        if not line:
            code = process.wait()
            self._kill()
            return {"ended": "died", "why": f"its process ended with code {code}; its message is above"}
        answer: Answer = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process: it ends by itself when its input is closed."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError, subprocess.TimeoutExpired):
                self._process.stdin.close()
                self._process.wait(timeout=_PATIENCE_S)
        self._kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | self._env
        )

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process = None


def serve(job: Callable[[dict[str, Any]], Answer]) -> None:
    """The contestant's side: answer settings, one JSON line each. Output printed by libraries goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        answers.write(json.dumps(job(json.loads(line))) + "\n")
        answers.flush()


class Deadline:
    """A point in time after which nothing new is started."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds from now, not below 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether it has passed."""
        return self.left_s == 0.0

    def at_most(self, seconds: float) -> Deadline:
        """The earlier of this one and so many seconds from now."""
        return Deadline(min(seconds, self.left_s))
