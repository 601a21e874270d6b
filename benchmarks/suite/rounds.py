"""The parent's side of a race: every contestant finds its effort, then all take turns against the clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from statistics import median
from typing import Any

from suite.contestants import Answer, Contestant, Deadline
from suite.problems import PairSpec
from suite.race import key
from suite.solvers import OURS

_QUICK_S = 1.0  # a contestant this fast is timed even when the time is up
GRACE_S = 45.0  # beyond its limit, for imports, compiling, certificates and one step that takes long
Stable = Mapping[str, Contestant]


@contextmanager
def stable(names: Iterable[str]) -> Iterator[Stable]:
    """One process per contestant, until the end of the block."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(Contestant()) for name in names}


def race(
    contestants: Stable,
    spec: PairSpec,
    tols: tuple[float, ...],
    *,
    limit_s: float,
    repeats: int,
    deadline: Deadline,
) -> dict[str, Answer]:
    """One pair, all contestants.

    Parameters
    ----------
    tols : floats
        Accuracies: both the relative gap and the marginal error have to be within.
    limit_s : float
        What a contestant may spend on its way to the last accuracy.
    repeats : int
        Timed runs per accuracy; fewer where all of them would take longer than the limit, but one.

    Returns
    -------
    dict by contestant
        ``times``: by accuracy, `median_s`, `min_s`, `max_s`, `runs` and the worst errors of the runs; ``ended`` and ``why`` as from
        `find`; where an accuracy was not reached, ``last``: seconds and errors of one run with the last effort.
    """
    rows: dict[str, Answer] = {}
    for name, contestant in contestants.items():
        # Slow contestants may use up the time; ours, the baseline of all ratios, is measured anyway.
        until = Deadline(2 * limit_s + GRACE_S) if name == OURS else deadline
        rows[name] = _ask(contestant, until, limit_s, "find", name, spec, tols=tols, limit_s=limit_s)
    runs: dict[str, dict[str, list[Answer]]] = {
        name: {tol: [] for tol in row.get("efforts", {})} for name, row in rows.items()
    }
    for turn in range(repeats):
        for name, contestant in contestants.items():
            efforts = rows[name].get("efforts", {})
            if turn * sum(found["seconds"] for found in efforts.values()) >= limit_s:
                continue
            for tol, found in efforts.items():
                is_quick = name == OURS or found["seconds"] < _QUICK_S
                until = Deadline(limit_s + GRACE_S) if is_quick else deadline
                answer = _ask(contestant, until, limit_s, "timed", name, spec, effort=found["effort"])
                runs[name][tol].append(answer)
    for name, row in rows.items():
        row["times"] = {tol: summary(answers) for tol, answers in runs[name].items() if _seconds(answers)}
        if row["ended"] in ("limit", "stuck") and row.get("last_effort"):
            row["last"] = _ask(contestants[name], deadline, limit_s, "timed", name, spec, effort=row["last_effort"])
    return rows


def _ask(
    contestant: Contestant, deadline: Deadline, allowed_s: float, job: str, name: str, spec: PairSpec, **more: Any
) -> Answer:
    if deadline.is_over:
        return {"ended": "not run", "why": "the time was up"}
    within = min(3 * allowed_s + GRACE_S, deadline.left_s + allowed_s)
    return contestant.ask(within, job=job, solver=name, spec=asdict(spec), **more)


def _seconds(answers: list[Answer]) -> list[float]:
    return sorted(answer["seconds"] for answer in answers if "seconds" in answer)


def summary(answers: list[Answer]) -> Answer:
    """Median and spread of the answers that have seconds, and their worst errors."""
    times = _seconds(answers)
    good = [answer for answer in answers if "seconds" in answer]
    errors: Answer = {
        name: max(answer[name] for answer in good) for name in ("relative_gap", "marginal_error") if name in good[0]
    }
    return {"median_s": median(times), "min_s": times[0], "max_s": times[-1], "runs": len(times), **errors}


def seconds_to(row: Answer, tol: float) -> float | None:
    """The median time to an accuracy, or None."""
    found = row.get("times", {}).get(key(tol))
    return None if found is None else found["median_s"]
