"""Every field of `TransportConfig` as an option of a command, generated from the dataclass."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import lru_cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from pairframe import files
from pairframe.cli.option_words import ADVANCED, CHOICES, EXAMPLES, HELP, PANEL_ORDER, PANELS
from pairframe.errors import ConfigError, FileError, InputError
from pairframe.frame import BoxYX
from pairframe.problem import TransportConfig

FILE_OPTION = "config_file"
NO_DEFAULT = "none"
Parse = Callable[[str, str], Any]  # (words, flag) -> value
# Several ways to give one quantity: an option for one replaces the value in the file for the others.
_SAME_QUANTITY = (("blur_um", "epsilon"), ("reach_um", "marginal_relaxation", "moved_mass", "moved_share"))


@dataclass(frozen=True)
class ConfigOption:
    """One field as an option.

    Attributes
    ----------
    name : str
        Of the field.
    kind : type
        float, int or bool where typer can read the words, else str: then `parse` turns them into the value.
    default : str
        As the help shows it.
    """

    name: str
    kind: type
    parse: Parse | None
    metavar: str | None
    default: str

    @property
    def flag(self) -> str:
        """``--blur-um``; a boolean has its opposite beside it."""
        word = self.name.replace("_", "-")
        return f"--{word}/--no-{word}" if self.kind is bool else f"--{word}"

    @property
    def help(self) -> str:
        """What it means, in one sentence or two."""
        return HELP.get(self.name, f"TransportConfig.{self.name}.")

    def value(self, words: Any) -> Any:
        """The value of the field from the words on the command line."""
        return words if self.parse is None else self.parse(words, self.flag)

    @property
    def parameter(self) -> inspect.Parameter:
        """The same as a parameter of a command; None when it was not given."""
        option = typer.Option(
            self.flag,
            help=self.help if self.default == NO_DEFAULT else f"{self.help} Default: {self.default}.",
            metavar=self.metavar,
            show_default=False,
            rich_help_panel=PANELS.get(self.name, ADVANCED),
        )
        return _parameter(self.name, self.kind, option)


def config_options(config_class: type = TransportConfig) -> tuple[ConfigOption, ...]:
    """An option for every field, in the order of the class."""
    hints = get_type_hints(config_class)
    return tuple(_option(field, hints[field.name]) for field in fields(config_class))


def with_config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``config: TransportConfig`` of a command by options for all its fields, and ``--config``.

    A field that the command has a parameter of its own for gets no option. Options override the file, and the file the
    defaults::

        @app.command()
        @with_config_options
        def compare(source: str, target: str, config: TransportConfig) -> None: ...
    """
    signature = inspect.signature(command, eval_str=True)
    options = [option for option in _transport_options() if option.name not in signature.parameters]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
        if parameter.name != "config"
    ]
    file_option = typer.Option(
        "--config", help="TOML file with fields of TransportConfig; options override it.", metavar="FILE"
    )
    in_order = sorted(options, key=lambda option: PANEL_ORDER.index(PANELS.get(option.name, ADVANCED)))
    added = [_parameter(FILE_OPTION, Path, file_option), *(option.parameter for option in in_order)]

    @wraps(command)
    def run(**given: Any) -> None:
        words = {option.name: given.pop(option.name) for option in options}
        path = given.pop(FILE_OPTION)
        base = None if path is None else config_file(path)
        command(**given, config=read_config(base, words))

    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    return run


def read_config(base: TransportConfig | None, words: Mapping[str, Any]) -> TransportConfig:
    """The config of a file (or the default) with the options of the command line; `words` by field, None if not given."""
    given = {
        option.name: option.value(words[option.name])
        for option in _transport_options()
        if words.get(option.name) is not None
    }
    base = TransportConfig() if base is None else base
    overruled = {other: None for ways in _SAME_QUANTITY if any(way in given for way in ways) for other in ways}
    return replace(base, **{**overruled, **given})


def options_markdown() -> str:
    """The table of options as `docs/cli.md` shows it."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for option in _transport_options():
        metavar = f" {option.metavar}" if option.metavar else ""
        words = f"{option.flag}{metavar}".replace("|", "\\|").replace("/", "`, `")
        lines.append(f"| `{words}` | {option.default} | {option.help} |")
    return "\n".join(lines)


@lru_cache(maxsize=1)
def _transport_options() -> tuple[ConfigOption, ...]:
    return config_options()


def _parameter(name: str, kind: type, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _option(field: Field[Any], hint: Any) -> ConfigOption:
    is_union = get_origin(hint) in (Union, UnionType)
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if is_union else [hint]
    if len(kinds) == 1 and kinds[0] in _PLAIN:
        kind, parse, metavar = kinds[0], None, _PLAIN[kinds[0]]
    else:
        kind, (parse, metavar) = str, _FORMS.get(frozenset(kinds), (_toml_value, "TOML"))
    if field.name in CHOICES:
        metavar = "|".join(CHOICES[field.name])
    return ConfigOption(field.name, kind, parse, metavar, _shown_default(field))


def _shown_default(field: Field[Any]) -> str:
    default = None if field.default is MISSING else field.default
    if default is None:
        known = {
            "blur_um": "2 pixels",
            "reach_um": "typical length of the objects",
            "px_size_um": "from the files",
            "volume": "from the files",
            "rim_um": "1 pixel",
            "rim_correlation_um": "10 times --rim-um",
        }
        return known.get(field.name, NO_DEFAULT)
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


# --- words to values -------------------------------------------------------------------------


def _names(words: str, flag: str) -> str | tuple[str, ...]:
    names = tuple(word.strip() for word in words.split(","))
    return names[0] if len(names) == 1 else names


def _sides(words: str, flag: str) -> float | tuple[float, ...]:
    try:
        sides = tuple(float(word) for word in words.split(","))
    except ValueError:
        sides = ()
    if len(sides) not in (1, 3):
        expected = f"{flag} as one number, or as Z,Y,X with a decimal point"
        raise ConfigError(expected, repr(words), f"e.g. {flag} 0.65, or {flag} 2.5,1,1 for a volume", "px_size_um")
    return sides[0] if len(sides) == 1 else sides


def _box(words: str, flag: str) -> BoxYX:
    return BoxYX(*_integers(words.split(","), 4, words, flag))


def _shapes(words: str, flag: str) -> tuple[tuple[int, ...], ...]:
    return tuple(_integers(shape.lower().split("x"), 2, words, flag) for shape in words.split(","))


def _integers(parts: list[str], n: int, words: str, flag: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in parts)
    except ValueError:
        numbers = ()
    if len(numbers) != n:
        shape, example = EXAMPLES[n]
        raise ConfigError(f"{flag} as {shape}, whole numbers", repr(words), f"e.g. {flag} {example}")
    return numbers


def _toml_value(words: str, flag: str) -> Any:
    """A field of any other type, written as in a config file."""
    try:
        return tomllib.loads(f"value = {words}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return words


_PLAIN: dict[type, str | None] = {bool: None, int: "N", float: "X", str: "TEXT"}
_FORMS: dict[frozenset[Any], tuple[Parse, str]] = {
    frozenset({str, tuple[str, str]}): (_names, "NAME[,NAME]"),
    frozenset({float, tuple[float, float, float]}): (_sides, "X|Z,Y,X"),
    frozenset({BoxYX}): (_box, "Y0,Y1,X0,X1"),
    frozenset({tuple[tuple[int, int], ...]}): (_shapes, "HxW[,HxW...]"),
}


def config_file(path: Path) -> TransportConfig:
    """The config in a TOML file."""
    try:
        with files.open_regular(path) as stream:
            text = stream.read().decode()
    except FileNotFoundError as error:
        raise FileError("an existing config file", repr(str(path)), "check the path given with --config") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise FileError(
            "a config file that can be read", f"{str(path)!r}: {reason}", "write it as TOML, e.g. blur_um = 2.0"
        ) from error
    try:
        return TransportConfig.from_toml(text)
    except InputError as error:
        # Without the field: the file is at fault, not an option.
        raise type(error)(error.expected, f"{error.got} in {str(path)!r}", error.fix) from error
