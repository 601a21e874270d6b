"""Situations with a known truth get their notices and no others, and the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import pairframe as pf
from pairframe.testing.situations import SIZES_PX, Situation, codes_of, situations

PAGE = Path(__file__).parents[2] / "docs" / "notices.md"


def cases() -> list[object]:
    """The smallest size is quick."""
    return [
        pytest.param(situation, id=f"{situation.name}, {size_px} px", marks=[pytest.mark.slow] if size_px > 48 else [])
        for size_px in SIZES_PX
        for situation in situations(size_px)
    ]


@pytest.mark.parametrize("situation", cases())
def test_a_situation_gets_its_notices_and_no_others(situation: Situation) -> None:
    assert codes_of(situation, pf.compare, pf.TransportConfig) == situation.codes


def test_there_are_sixty_and_more() -> None:
    assert sum(len(situations(size_px)) for size_px in SIZES_PX) >= 60


def test_the_page_has_every_situation_and_none_is_wrong() -> None:
    text = PAGE.read_text()
    for situation in situations(SIZES_PX[0]):
        codes = ", ".join(f"`{code}`" for code in sorted(situation.codes)) or "none"
        assert f"| {situation.name} | {codes} | 3 |" in text
    confusion = text.split("| notice | given rightly | missed | given wrongly |")[1].splitlines()[2:]
    rows = [line.split("|")[1:-1] for line in confusion if line.startswith("| `")]
    assert rows
    assert all((missed.strip(), wrong.strip()) == ("0", "0") for _, _, missed, wrong in rows)


def test_every_code_of_a_situation_is_explained() -> None:
    text = PAGE.read_text()
    assert all(f"| `{code}`" in text for situation in situations(48) for code in situation.codes)
