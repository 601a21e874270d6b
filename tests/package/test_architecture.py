"""The page on the architecture and its picture show the code as it is."""

from __future__ import annotations

import html
import json
import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = runpy.run_path(str(DOCS / "import_graph.py"))
AGAIN = "run: python docs/import_graph.py"


def test_the_import_graph_is_that_of_the_code() -> None:
    assert json.loads((DOCS / "import_graph.json").read_text()) == SCRIPT["import_graph"](), AGAIN


def test_the_picture_is_drawn_from_the_graph() -> None:
    picture = (DOCS / "images/import_graph.svg").read_text()
    found = re.search(r"<dc:description>(.*?)</dc:description>", picture, flags=re.DOTALL)
    assert found is not None
    drawn = json.loads(html.unescape(found[1]))
    assert drawn == json.loads((DOCS / "import_graph.json").read_text()), AGAIN


def test_folders_are_in_an_order_without_imports_of_later_ones() -> None:
    names = SCRIPT["folders"]()
    for name, others in SCRIPT["import_graph"]().items():
        assert all(names.index(other) < names.index(name) for other in others)


def test_the_page_lists_the_folders_in_order() -> None:
    page = (DOCS / "architecture.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE) == SCRIPT["folders"]()
