"""`ColumnMap`: which columns of a table hold masks, series, frames and sizes; given by options or by a small TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pairframe import files
from pairframe.checks import listed, shown
from pairframe.errors import ManifestError

MAP_SUFFIX = ".toml"
_MOST_BYTES = 1 << 20
_STRUCTURE = "a structure, such as a landmark or a region"


@dataclass(frozen=True)
class ColumnMap:
    """Names of columns in a table of frames; None: the usual name, if there is such a column.

    Parameters
    ----------
    mask : str, optional
        The mask that is compared or aligned: a path or run lengths. Usually ``path``, else ``mask``.
    series, frame : str, optional
        Usually ``series``, and ``frame`` or ``time``.
    px_size_um : str, optional
        Side of a pixel, um. Usually ``px_size_um``.
    height_um : str, optional
        Height of the image, um: the pixel size is this over its height in pixels. It has no usual name.
    height_px, width_px : str, optional
        Size of the image in pixels, for run lengths without a size and for outlines. Usually ``height_px``, ``width_px``.
    structures : tuple of str
        Further masks of the same image, such as ``("yolk", "eye")``. Columns of COCO objects with size and counts need not
        be named.
    """

    mask: str | None = None
    series: str | None = None
    frame: str | None = None
    px_size_um: str | None = None
    height_um: str | None = None
    height_px: str | None = None
    width_px: str | None = None
    structures: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        structures = self.structures
        if not isinstance(structures, tuple | list) or not all(isinstance(name, str) for name in structures):
            raise ManifestError("structures as a list of columns", shown(structures), 'e.g. ["yolk", "eye"]')
        object.__setattr__(self, "structures", tuple(dict.fromkeys(structures)))
        for role, name in self.single.items():
            if not isinstance(name, str) or not name:
                raise ManifestError(f"the name of a column for {role}", shown(name), "give its name as text", role)
        if self.px_size_um is not None and self.height_um is not None:
            raise ManifestError(
                "the pixel size from one column", "both px_size_um and height_um", "name one of them", "height_um"
            )

    @property
    def single(self) -> dict[str, str]:
        """The columns that are named, by role, without the structures."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "structures"}
        return {role: name for role, name in named.items() if name is not None}

    def with_structure(self, name: str | None) -> ColumnMap:
        """The same with one more structure, if it is one."""
        return self if name is None else replace(self, structures=(*self.structures, name))

    def over(self, other: ColumnMap) -> ColumnMap:
        """The same, completed by `other`."""
        own = self.single
        # The pixel size is one thing with two names.
        theirs = {
            role: name
            for role, name in other.single.items()
            if not (role in ("px_size_um", "height_um") and {"px_size_um", "height_um"} & set(own))
        }
        return ColumnMap(**(theirs | own), structures=(*other.structures, *self.structures))

    def resolved(self, names: tuple[str, ...], table: str) -> ColumnMap:
        """The columns as they are in a table with these names; an error if one that is named does not exist."""
        for role, name in (*self.single.items(), *((_STRUCTURE, name) for name in self.structures)):
            if name not in names:
                raise ManifestError(
                    f"a column {name!r} in {table!r}, named as the one for {role}",
                    f"the columns {listed(names)}",
                    "name one of them",
                    "" if role == _STRUCTURE else f"{role}_column",
                )

        def first(*usual: str) -> str | None:
            return next((name for name in usual if name in names), None)

        by_role = list(self.single.values())
        twice = next((name for name in by_role if by_role.count(name) > 1), None)
        if twice is not None:
            raise ManifestError("a column of its own for each", f"{twice!r} twice", "correct the column map")
        return ColumnMap(
            mask=self.mask or first("path", "mask"),
            series=self.series or first("series"),
            frame=self.frame or first("frame", "time"),
            px_size_um=self.px_size_um or (None if self.height_um else first("px_size_um")),
            height_um=self.height_um,
            height_px=self.height_px or first("height_px"),
            width_px=self.width_px or first("width_px"),
            structures=tuple(name for name in self.structures if name != self.mask),
        )


def read_column_map(path: Path) -> tuple[Path, ColumnMap]:
    """The table that a TOML file names, relative to its folder, and its ``[columns]``."""
    try:
        with files.open_regular(path) as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
        values = tomllib.loads(content.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ManifestError(
            "a TOML file with a table and its columns", f"{str(path)!r}: {error or type(error).__name__}", "correct it"
        ) from error
    table, columns = values.pop("table", None), values.pop("columns", {})
    _refuse_unknown(values, ("table", "columns"), path)
    if not isinstance(table, str) or not isinstance(columns, dict):
        raise ManifestError(
            f'table = "frames.csv" and a section [columns] in {path.name!r}',
            f"table = {shown(table)}",
            "name the table; see docs/inputs.md",
        )
    roles = tuple(one.name for one in fields(ColumnMap))
    _refuse_unknown({role: None for role in columns if role not in roles}, roles, path)
    return path.parent / table, ColumnMap(**columns)


def _refuse_unknown(left: dict[str, Any], known: tuple[str, ...], path: Path) -> None:
    if set(left) - set(known):
        raise ManifestError(
            f"only {', '.join(known)} in {path.name!r}", shown(next(iter(left))), "correct the name or remove it"
        )
