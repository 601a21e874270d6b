"""Folders import only leftwards in the data flow, and importing the package is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pairframe

PACKAGE = Path(pairframe.__file__).parent
# The data flow, and so the import order: each may import from those before it.
ORDER = (
    "_version errors masks frame problem tiled engines maps results pipeline report cohort testing cli __main__".split()  # noqa: SIM905
)
STANDS_ALONE = {"tiled"}
MUST_NOT_LOAD = ("numpy", "torch", "jax", "ot", "dask", "matplotlib", "pandas", "numba", "zarr")


def folder_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    """Every pairframe folder that a module imports from, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            if node.module == "pairframe":
                found |= {
                    f"pairframe.{pairframe._HOME_OF.get(a.name, a.name).removeprefix('pairframe.')}" for a in node.names
                }
    return {folder_of(name) for name in found if name.split(".")[0] == "pairframe"} - {"", "__version__"}


MODULES = sorted(
    path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE
)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_folder_imports_only_from_those_before_it(module: Path) -> None:
    here = module.parts[0].removesuffix(".py")
    assert here in ORDER, f"{here} has no place in the data flow"
    allowed = {here} if here in STANDS_ALONE else set(ORDER[: ORDER.index(here) + 1])
    assert imports_of(PACKAGE / module) <= allowed


def test_every_folder_says_what_comes_in_what_goes_out_and_what_it_must_not_know() -> None:
    for init in PACKAGE.glob("*/__init__.py"):
        doc = ast.get_docstring(ast.parse(init.read_text()))
        assert doc, init
        assert doc.count(".") >= 2, init


def test_importing_pairframe_loads_nothing_heavy_and_starts_no_thread() -> None:
    code = f"""
import os, sys
import pairframe
assert dir(pairframe)
loaded = [name for name in {MUST_NOT_LOAD!r} if name in sys.modules]
assert not loaded, loaded
assert len(os.listdir('/proc/self/task')) == 1, 'a thread pool was started'
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_loads_and_the_stub_lists_the_same_names() -> None:
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    in_stub = {
        alias.asname: (node.module, alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(in_stub) == set(pairframe.__all__)
    for name in pairframe.__all__:
        assert getattr(pairframe, name) is not None
        if name != "__version__":
            assert in_stub[name] == (pairframe._HOME_OF[name], name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'transport'"):
        _ = pairframe.transport
