"""List every public name, one per line: ``python docs/public_names.py`` writes ``docs/api/names.txt``.

The public names are those of the modules that the pages in ``docs/api`` document. Everything else may change at any time.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

API = Path(__file__).parent / "api"
LIST = API / "names.txt"


def documented_modules() -> list[str]:
    """The modules that the pages of the API document, by page."""
    pages = sorted(API.glob("*.rst"))
    return [name for page in pages for name in re.findall(r"^\.\. automodule:: (\S+)$", page.read_text(), re.MULTILINE)]


def names_of(module_name: str) -> list[str]:
    """The public names of a module: its ``__all__``, or without one the functions and classes that it defines."""
    module = import_module(module_name)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    defined = inspect.getmembers(module, lambda thing: getattr(thing, "__module__", None) == module_name)
    kept = [name for name, thing in defined if inspect.isroutine(thing) or inspect.isclass(thing)]
    return sorted(name for name in kept if not name.startswith("_"))


def public_names() -> list[str]:
    """Every public name with its module, in the order of the pages."""
    return [f"{module}.{name}" for module in documented_modules() for name in names_of(module)]


if __name__ == "__main__":
    LIST.write_text("\n".join(public_names()) + "\n")
