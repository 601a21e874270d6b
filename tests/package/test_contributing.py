"""The page for contributors names folders, files and tables that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/pairframe"
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
ROWS = re.findall(r"^\| (?!to add|---)([^|]+) \|(.+)\|$", PAGE, flags=re.MULTILINE)


@pytest.mark.parametrize(("change", "places"), ROWS, ids=[change for change, _ in ROWS])
def test_the_places_of_a_change_exist(change: str, places: str) -> None:
    for place in re.findall(r"`([\w/]+/(?:[\w/]+\.py)?)`", places):
        assert (PACKAGE / place).exists(), f"{change}: {place}"
    for name, place in re.findall(r"`(\w+)` of `([\w/]+\.py)`", places):
        assert re.search(rf"\b{name}\b", (PACKAGE / place).read_text()), f"{change}: {name} in {place}"


def test_the_data_flow_names_every_folder_once_and_in_order() -> None:
    flow = "".join(re.findall(r"^    (parallel, .*\n.*)$", PAGE, flags=re.MULTILINE))
    architecture = (ROOT / "docs/architecture.md").read_text()
    assert re.findall(r"\w+", flow) == re.findall(r"^\| `(\w+)` \|", architecture, flags=re.MULTILINE)
