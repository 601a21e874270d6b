"""`Notice`: a remark about a comparison that a person should read, with what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much a notice weighs."""

    note = "note"  # good to know
    warning = "warning"  # the numbers may not mean what they seem to: read it before you use them


class MemoryShortage(UserWarning):
    """A comparison that will probably not fit into memory; given before the solve, when there is no result to read it from."""


@dataclass(frozen=True)
class Notice:
    """A remark about a comparison.

    Attributes
    ----------
    code : str
        What it is about, for programs, such as ``motion_called_growth``; `docs/notices.md` lists all of them.
    message : str
        What was seen, with numbers in the units of the user.
    fix : str
        What to do about it; may be empty.
    severity : {"note", "warning"}
    """

    code: str
    message: str
    fix: str = ""
    severity: Severity = Severity.note

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message

    @property
    def is_warning(self) -> bool:
        """Whether the numbers should not be used before reading this."""
        return self.severity == Severity.warning

    def to_plain(self) -> dict[str, str]:
        """As plain JSON values."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_plain(cls, value: Any) -> Notice:
        """From `to_plain`, or from the sentence that earlier versions kept."""
        if isinstance(value, str):
            return cls("remark", value)
        known = {name: str(value[name]) for name in ("code", "message", "fix") if name in value}
        return cls(**known, severity=Severity(value.get("severity", "note")))


def warning(code: str, message: str, fix: str) -> Notice:
    """A notice that should be read before the numbers are used."""
    return Notice(code, message, fix, Severity.warning)
