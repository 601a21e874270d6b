"""The description of the package: README.md without its pictures, and with paths instead of links into the project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^]]*\]\((?!https?://)[^)]+\)\n\n?", flags=re.MULTILINE)
_LINK = re.compile(r"\[([^]]+)\]\((?!https?://)([^)#]+)[^)]*\)")


def description(readme: str) -> str:
    """The text of the README as it can stand alone."""
    return _LINK.sub(r"\1 (`\2`)", _PICTURE.sub("", readme))


class PackageDescription(MetadataHookInterface):
    """Puts the description into the metadata of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See `MetadataHookInterface.update`."""
        text = description((Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
