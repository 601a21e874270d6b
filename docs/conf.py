"""How the site is built: `make docs`. Everything it needs is in this project; nothing is fetched, then or later.

Markdown pages are plain enough to be read where the code is hosted. What is made on the way goes to `docs/generated`:
the gallery, run from copies of `examples/`, and the project's own pages that live above this folder.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

# Before anything loads numpy or triton: small solves only fight over the cores with more threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PAIRFRAME_JAX_CACHE", "off")

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE)]

import gallery_pictures  # noqa: E402

import pairframe  # noqa: E402

project = "pairframe"
author = "The pairframe developers"
copyright = author
version = release = pairframe.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "figures", "generated/examples", "generated/gallery/*.ipynb", "**/sg_execution_times.rst"]
nitpicky = True
# A name in backquotes that several things bear is an argument or a field of what it stands in, and needs no link.
suppress_warnings = ["ref.python"]

# --- pages -----------------------------------------------------------------------------------

html_theme = "furo"
html_title = f"pairframe {pairframe.__version__}"
html_copy_source = html_show_sourcelink = False
html_show_search_summary = False  # would fetch pages, which browsers refuse to do from a folder
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["static"]
html_css_files = ["pairframe.css"]
html_js_files = ["copy.js"]
pygments_style, pygments_dark_style = "friendly", "monokai"
myst_heading_anchors = 3
highlight_language = "none"
MOST_DESCRIBED = 155  # characters that search engines show of a description

# --- the API from docstrings -----------------------------------------------------------------

default_role = "py:obj"
add_module_names = False
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # docstrings say the type with shape and unit
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
maximum_signature_line_length = 100
# Types are sentences ("(H, W) array or path"), and a name in backquotes may be an argument: neither has to lead anywhere.
nitpick_ignore_regex = [("py:class", r"(?!pairframe\.).*"), ("py:obj", r".*")]

# --- the gallery -----------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "generated/examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"plot_",
    "subsection_order": [f"generated/examples/{group}" for group in ("first", "show", "cohorts", "trust", "fit")],
    "image_scrapers": ("gallery_pictures.scrape",),
    "reset_modules": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "default_thumb_file": str(HERE / "images" / "pair_frame.png"),
}

GALLERY_HEADER = """
Gallery
=======

Scripts to take and change. Each runs as it stands when this site is built.
"""
# Every script is in one of these groups, in this order.
GALLERY = {
    "first": ("First steps", ["summary", "real_cell", "masks_and_mass", "blur_and_reach", "tiny_and_huge"]),
    "show": ("Show and keep", ["morphing", "store_and_reload", "pair_frame"]),
    "cohorts": ("Many pairs", ["cohort_run", "cohort_analysis"]),
    "trust": ("How sure is it?", ["noise_floor", "convergence", "engines_agree", "exact_distance"]),
    "fit": ("Losses and gradients", ["fit_an_embryo", "fit_a_shape", "thin_structures"]),
}
GROUP_OF = {f"plot_{name}": group for group, (_, names) in GALLERY.items() for name in names}


def copy_what_lives_above(app: Any, config: Any) -> None:
    """Bring scripts and project pages below the source folder; scripts write beside themselves, so not in `examples/`."""
    generated = Path(app.srcdir) / "generated"
    examples = generated / "examples"
    shutil.rmtree(examples, ignore_errors=True)
    examples.mkdir(parents=True)
    (examples / "GALLERY_HEADER.rst").write_text(GALLERY_HEADER)
    for group, (title, _) in GALLERY.items():
        (examples / group).mkdir()
        (examples / group / "GALLERY_HEADER.rst").write_text(f"{title}\n{'-' * len(title)}\n")
    for script in sorted((ROOT / "examples").glob("plot_*.py")):
        shutil.copy(script, examples / GROUP_OF[script.stem])
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        page = re.sub(r"\]\(docs/", "](../", (ROOT / name).read_text())
        (generated / name).write_text(page)


def lead_upwards_links_to_copies(app: Any, docname: str, source: list[str]) -> None:
    """`../CONTRIBUTING.md` is right where the code is hosted; on the site it is a copy."""
    if not docname.startswith("generated/"):
        source[0] = re.sub(r"\]\(\.\./(CONTRIBUTING|CHANGELOG)\.md", r"](generated/\1.md", source[0])
        source[0] = re.sub(
            r"\]\(\.\./examples/(plot_\w+)\.py\)",
            lambda found: f"](generated/gallery/{GROUP_OF[found[1]]}/{found[1]}.rst)",
            source[0],
        )


def shorten_signatures(
    app: Any, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None] | None:
    """Values that nobody makes by hand show no signature of forty fields."""
    if what == "class" and signature and signature.count(",") > 12 and "Config" not in name:
        return "", None
    return None


def show_public_names_once(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """What `pairframe` itself exports is on its own page, and not again on that of its folder."""
    if app.env.docname != "api/pairframe" and name in pairframe.__all__ and getattr(pairframe, name) is thing:
        return True
    return None


def describe(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """The first sentences of a page describe it to search engines, unless it says so itself."""
    from docutils import nodes

    if doctree is None or 'name="description"' in context.get("metatags", ""):
        return
    paragraphs = (node.astext() for node in doctree.findall(nodes.paragraph) if isinstance(node.parent, nodes.section))
    text = " ".join(next(paragraphs, "").split())
    if len(text) > MOST_DESCRIBED:
        text = text[:MOST_DESCRIBED].rsplit(" ", 1)[0] + " ..."
    if text:
        context["metatags"] = context.get("metatags", "") + f'<meta name="description" content="{html.escape(text)}">\n'


def setup(app: Any) -> None:
    app.connect("builder-inited", gallery_pictures.show_one_panel, priority=900)  # after the gallery is made
    app.connect("html-page-context", describe)
    app.connect("config-inited", copy_what_lives_above, priority=0)
    app.connect("env-get-outdated", lambda *_: ["index"])  # it depends on which pages there are
    app.connect("source-read", lead_upwards_links_to_copies)
    app.connect("autodoc-process-signature", shorten_signatures)
    app.connect("autodoc-skip-member", show_public_names_once)
