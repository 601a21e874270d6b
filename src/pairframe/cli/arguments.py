"""Arguments that several commands share, and commands whose options are the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")


def folder_path(words: str) -> Path:
    """A path; an empty name, which a script may pass by mistake, is refused instead of meaning the current folder."""
    if not str(words).strip():
        raise typer.BadParameter("it is empty; give the path of a folder, or . for the current folder")
    return Path(words)


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors, and pairs that are empty or did not converge.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
DemoVolume = Annotated[bool, typer.Option("--volume", help="Volumes instead: a tube that grows and bends.")]
Results = Annotated[Path, typer.Argument(metavar="DIR", parser=folder_path, help="Folder with results.")]
Output = Annotated[
    Path, typer.Option(metavar="DIR", parser=folder_path, help="Folder to write to; created if it does not exist.")
]


def with_options_of(options_class: type[Options]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of a dataclass as options; it is called with one instance, ``options``."""
    hints = get_type_hints(options_class, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in fields(options_class)  # type: ignore[arg-type]
    ]
    names = [parameter.name for parameter in parameters]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        others = [parameter for name, parameter in signature.parameters.items() if name != "options"]

        @wraps(command)
        def run(**given: Any) -> None:
            options = options_class(**{name: given.pop(name) for name in names})
            command(options=options, **given)

        every = [*parameters, *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in others)]
        run.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
        return run

    return decorate


def _default(option: Field[Any]) -> Any:
    if option.default_factory is not MISSING:
        return option.default_factory()
    return inspect.Parameter.empty if option.default is MISSING else option.default


def arguments_for(function: Callable[..., Any], options: object, *leave_out: str) -> dict[str, Any]:
    """The fields of `options` that `function` has parameters for, by name."""
    wanted = set(inspect.signature(function).parameters) - set(leave_out)
    return {name: value for name, value in vars(options).items() if name in wanted}
