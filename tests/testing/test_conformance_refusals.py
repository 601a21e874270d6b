"""A refusal in the shipped suite is a skipped test with the engine's reason, and a refusal without a reason fails."""

from __future__ import annotations

import pytest

from pairframe.engines import SolveOptions, get_engine
from pairframe.engines.oracle import OracleEngine
from pairframe.testing import CASES, EngineSuite

CASE = CASES[-1]


class OracleSuite(EngineSuite):
    engine = "oracle"


def test_a_refusal_is_a_skip_with_the_engines_own_reason() -> None:
    reason = get_engine("oracle").supports(CASE.problem, SolveOptions(dtype="float32"))
    assert reason
    with pytest.raises(pytest.skip.Exception) as skipped:
        OracleSuite().test_it_gives_the_oracles_answer(CASE, "float32")
    assert skipped.value.msg == f"oracle refuses this problem: {reason}"


@pytest.mark.parametrize("reason", ["", "no"])
def test_a_refusal_without_a_sentence_fails(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OracleEngine, "supports", lambda *_: reason)
    with pytest.raises(AssertionError, match="expected a sentence that explains the refusal"):
        OracleSuite().test_its_certificate_is_true(CASE)


def test_stopping_short_of_a_supported_problem_fails() -> None:
    class Short(OracleSuite):
        options = {"max_iterations": 1}  # noqa: RUF012

    with pytest.raises(AssertionError, match="although the engine supports epsilon down to"):
        Short().test_its_certificate_is_true(CASE)


def test_stopping_short_where_it_may_is_a_skip_with_the_status_and_its_advice() -> None:
    class Short(OracleSuite):
        options = {"max_iterations": 1}  # noqa: RUF012
        may_stop_short = frozenset({CASE.name})

    with pytest.raises(pytest.skip.Exception, match=r"oracle cannot reach tol 1e-08 here and reports it: .+"):
        Short().test_its_certificate_is_true(CASE)
