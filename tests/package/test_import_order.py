"""Folders import only leftwards in the data flow, and importing the package is cheap."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

import pairframe

PACKAGE = Path(pairframe.__file__).parent
# The data flow, and so the import order: each may import from those before it.
ORDER = [
    "_version",
    "errors",
    "types",
    "notices",
    "plain_json",
    "checks",
    "units",
    "system",
    "files",
    "compiler",
    "progress",
    "parallel",
    "masks",
    "alignment",
    "frame",
    "problem",
    "tiled",
    "engines",
    "maps",
    "losses",
    "exact",
    "results",
    "pipeline",
    "regions",
    "axis",
    "analysis",
    "cohort",
    "report",
    "testing",
    "cli",
    "__main__",
]
# The methods of `TransportResult` that save and show it import their module when called; that module knows the class.
CONVENIENCE_METHODS = {
    ("pairframe.results.result", f"pairframe.results.{name}")
    for name in ("export", "repr_html", "store", "xarray_view")
}
STANDS_ALONE = {"tiled"}
MUST_NOT_LOAD = ("numpy", "torch", "jax", "ot", "dask", "matplotlib", "pandas", "numba", "zarr")


def imported_modules(path: Path) -> set[str]:
    """Full names of the pairframe modules that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            if node.module == "pairframe":
                found |= {pairframe._HOME_OF.get(alias.name, f"pairframe.{alias.name}") for alias in node.names}
    return {name for name in found if name.startswith("pairframe.") and name != "pairframe.__version__"}


def import_violations(module: Path) -> list[str]:
    """One line for each import of a module that is not to its left in the data flow."""
    here = module.parts[0].removesuffix(".py")
    if here not in ORDER:
        return [f"{module}: {here} has no place in the data flow"]
    allowed = {here, "compiler"} if here in STANDS_ALONE else set(ORDER[: ORDER.index(here) + 1])
    imported = sorted(imported_modules(PACKAGE / module))
    return [f"{module} imports {name}" for name in imported if name.split(".")[1] not in allowed]


def test_a_folder_imports_only_from_those_before_it() -> None:
    modules = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
    violations = [line for module in modules for line in import_violations(module)]
    assert not violations, "\n".join(violations)


def module_name(path: Path) -> str:
    parts = ("pairframe", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports when it runs, also inside functions; not for type checking."""
    paths = {module_name(path): path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"}
    return {name: _run_imports(path, paths.keys()) - {name} for name, path in paths.items()}


def _run_imports(path: Path, modules: Collection[str]) -> set[str]:
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in for_types:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node not in for_types:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                home = pairframe._HOME_OF.get(alias.name) if node.module == "pairframe" else None
                found.add(home or (full if full in modules else node.module))
    return found & set(modules)


def test_no_modules_import_each_other() -> None:
    graph = import_graph()
    assert {(name, other) for name, other in CONVENIENCE_METHODS if other in graph[name]} == CONVENIENCE_METHODS
    acyclic = {
        name: {other for other in others if (name, other) not in CONVENIENCE_METHODS} for name, others in graph.items()
    }
    try:
        graphlib.TopologicalSorter(acyclic).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


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
