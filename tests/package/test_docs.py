"""Every example in the README and the docs runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_the_python_examples_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks(page, "python")))
    subprocess.run([sys.executable, "-W", "error", script], check=True, cwd=tmp_path, capture_output=True)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")], ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    commands = [line for block in blocks(page, "sh") for line in block.splitlines() if not line.startswith("make ")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-euc", "\n".join(commands)], check=True, cwd=tmp_path, env=os.environ | {"PATH": path})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
