"""Which engines there are. Built-ins are named here and loaded on first use; others come by entry points."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec

from pairframe.engines.base import Engine
from pairframe.errors import EngineError, MissingExtraError

ENTRY_POINT_GROUP = "pairframe.engines"


@dataclass(frozen=True)
class BuiltIn:
    """Location of a built-in engine and its optional needs: import names, name of the library, our extra."""

    home: str
    modules: tuple[str, ...] = ()
    library: str = ""
    extra: str = ""


BUILT_IN = {
    "grid": BuiltIn("pairframe.engines.grid:GridEngine"),
    "pot": BuiltIn("pairframe.engines.pot:PotEngine", ("ot",), "POT", "pot"),
    "ott": BuiltIn("pairframe.engines.ott:OttEngine", ("jax", "ott"), "ott-jax", "ott"),
    "torch": BuiltIn("pairframe.engines.torch:TorchEngine", ("torch",), "torch", "torch"),
    "oracle": BuiltIn("pairframe.engines.oracle:OracleEngine"),
}

_loaded: dict[str, Engine] = {}


def engine_names() -> tuple[str, ...]:
    """Names of all engines, built-in ones first; none of them is loaded for it."""
    others = sorted({point.name for point in metadata.entry_points(group=ENTRY_POINT_GROUP)} - set(BUILT_IN))
    return (*BUILT_IN, *others)


def check_engine(name: str) -> None:
    """Refuse an engine that cannot be had. One of ours is not loaded for it: that takes a second, and a cluster has workers."""
    if name in BUILT_IN:
        _check_libraries(name)
    else:
        get_engine(name)


def get_engine(name: str) -> Engine:
    """The engine of that name, loaded on first use. A built-in cannot be replaced by an entry point."""
    if name in _loaded:
        return _loaded[name]
    try:
        engine_class = _find(name)
    except ImportError as error:
        raise EngineError(
            f"the engine {name!r} to load", str(error), "install its dependencies, or choose another backend"
        ) from error
    if not (isinstance(engine_class, type) and issubclass(engine_class, Engine)):
        raise EngineError(
            f"the engine {name!r} to be a subclass of pairframe.engines.Engine",
            repr(engine_class),
            f"correct the entry point in the group {ENTRY_POINT_GROUP!r}",
        )
    _loaded[name] = engine_class()
    return _loaded[name]


def _find(name: str) -> object:
    if name in BUILT_IN:
        _check_libraries(name)
        module, _, attribute = BUILT_IN[name].home.partition(":")
        return getattr(import_module(module), attribute)
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        if point.name == name:
            try:
                return point.load()
            except AttributeError as error:
                raise EngineError(
                    f"the engine {name!r} to load", str(error), f"correct the entry point {point.value!r}"
                ) from error
    raise EngineError(f"an engine: {', '.join(engine_names())}", repr(name), "use one of these names")


def _check_libraries(name: str) -> None:
    engine = BUILT_IN[name]
    if any(find_spec(module) is None for module in engine.modules):
        raise MissingExtraError(
            f"{engine.library} to be installed, which the engine {name!r} needs",
            "no such module",
            f"pip install 'pairframe[{engine.extra}]'",
        )
