"""The public names are those that the pages of the API document, and users are shown no others."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
API = runpy.run_path(str(ROOT / "docs/public_names.py"))
FOR_USERS = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]


def test_the_list_of_public_names_is_that_of_the_code() -> None:
    listed = (ROOT / "docs/api/names.txt").read_text().splitlines()
    assert listed == API["public_names"](), "run: python docs/public_names.py"


def test_every_public_name_exists_and_every_function_and_class_has_a_docstring() -> None:
    for module_name in API["documented_modules"]():
        module = import_module(module_name)
        for name in API["names_of"](module_name):
            thing = getattr(module, name)
            if inspect.isroutine(thing) or inspect.isclass(thing):
                assert inspect.getdoc(thing), f"{module_name}.{name}"


def test_a_documented_package_lists_its_names() -> None:
    for module_name in API["documented_modules"]():
        module = import_module(module_name)
        assert hasattr(module, "__all__") or not hasattr(module, "__path__"), f"{module_name} has no __all__"


def test_every_page_of_the_api_is_in_its_table_of_contents() -> None:
    pages = {page.stem for page in (ROOT / "docs/api").glob("*.rst")} - {"index"}
    contents = (ROOT / "docs/api/index.rst").read_text()
    assert set(re.findall(r"^   (\w+)$", contents, flags=re.MULTILINE)) == pages


def test_pages_and_examples_import_public_names_only() -> None:
    public = set(API["public_names"]()) | set(API["documented_modules"]())
    private = [
        f"{page.name}: {name}" for page in FOR_USERS for name in imported_names(page.read_text()) if name not in public
    ]
    assert private == []


def imported_names(text: str) -> Iterator[str]:
    """The names that code in a page or a script imports from pairframe."""
    statement = r"^[ \t]*(?:>>> )?((?:from|import) pairframe\b(?:[\w. ]*\([^)]*\)|.*$))"
    for code in re.findall(statement, text, flags=re.MULTILINE):
        (node,) = ast.parse(code).body
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
