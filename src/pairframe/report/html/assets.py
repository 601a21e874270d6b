"""Templates, style and script as one self-contained page: all inline, and a policy that forbids everything else."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from pairframe.plain_json import plain

if TYPE_CHECKING:
    from jinja2 import Environment

CSS = "page.css"


def render(template: str, script: str, **context: Any) -> str:
    """A page from its template; `script` is the name of its JavaScript file."""
    policy = content_policy(_text(CSS), _text(script))
    return environment().get_template(template).render(css=_markup(CSS), js=_markup(script), policy=policy, **context)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Jinja with escaping on for every template, and undefined names as errors."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("pairframe.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["island"] = island
    return made


@lru_cache(maxsize=8)
def content_policy(*inline: str) -> str:
    """A Content-Security-Policy that allows only our own style and script, and pictures."""
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline)
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data: file: 'self'; base-uri 'none'; form-action 'none'"
    )


def island(value: Any) -> Any:
    """JSON that is safe inside ``<script type="application/json">``.

    No ``<``, ``>`` or ``&`` is left, so nothing can end the element or open a comment; other than ASCII is escaped, and so
    are the line separators U+2028 and U+2029.
    """
    from markupsafe import Markup

    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


@lru_cache(maxsize=8)
def _text(name: str) -> str:
    # The newline after <style> or <script> is part of the element: the templates add none.
    return resources.files("pairframe.report").joinpath("templates", name).read_text(encoding="utf-8").strip()


def _markup(name: str) -> Any:
    from markupsafe import Markup

    return Markup(_text(name))
