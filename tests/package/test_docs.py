"""Every example and every command in the README and the docs runs; none escapes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import pairframe as pf
from pairframe.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"", "console", "python", "sh", "text", "toml"}
THE_TWO_COMMANDS = ("make demo", "make test")
COMMAND = re.compile(r"^\s*(\$ |pairframe |python3? |pip |make |pytest |import \w+$|from \w[\w.]* import )")
# Half a minute and more: they run the demo, every engine, or a peer that compiles.
SLOW = {
    "README.md",
    "alignment.md",
    "analysis.md",
    "cli.md",
    "cohorts.md",
    "coming_from.md",
    "concepts.md",
    "engines.md",
    "error_bars.md",
    "inputs.md",
    "own_data.md",
    "peers.md",
    "regions.md",
    "start.md",
    "volumes.md",
}

# There is no SLURM here: its cluster is this process, and what the page asks of it is checked by name only.
JOBQUEUE = """
from distributed import LocalCluster

class SLURMCluster(LocalCluster):
    def __init__(self, *, cores, processes, memory, walltime, job_extra_directives):
        super().__init__(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")

    def adapt(self, *, maximum_jobs):
        pass
"""


def blocks(page: Path, *languages: str) -> list[str]:
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
    return [text for language, text in fence.findall(page.read_text()) if language in languages]


def commands(page: Path) -> list[str]:
    """What a person would type, in order: all lines of `sh`, and those of `console` after the prompt."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    lines += [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if not line.startswith(THE_TWO_COMMANDS)]


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def page_parameters(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else []) for page in pages]


@pytest.mark.parametrize("page", page_parameters([p for p in PAGES if blocks(p, "python") or commands(p)]))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """Its Python in one go, then its commands, in one folder: what the one writes the other may read."""
    stubs, place = tmp_path / "stubs", tmp_path / "place"
    stubs.mkdir()
    place.mkdir()
    (stubs / "dask_jobqueue.py").write_text(JOBQUEUE)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PYTHONPATH": str(stubs)}
    script = place / "example.py"
    script.write_text("\n".join(blocks(page, "python")))
    # OTT-JAX imports a library that says it is old; that is not ours to mend.
    warnings = ("-W", "error", "-W", "ignore:JAXopt is no longer maintained:DeprecationWarning")
    for words in ([sys.executable, *warnings, script], ["bash", "-euc", "\n".join(commands(page))]):
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_hides_in_a_block_that_is_not_run(page: Path) -> None:
    fences = re.findall(r"^```(.*)$", page.read_text(), flags=re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= LANGUAGES
    quiet = [line for block in blocks(page, "", "text") for line in block.splitlines()]
    quiet += re.findall(r"^    (\S.*)$", prose(page), flags=re.MULTILINE)
    printed = [line for block in blocks(page, "console") for line in block.splitlines() if not line.startswith("$ ")]
    assert [line for line in [*quiet, *printed] if COMMAND.match(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_sentence_tells_to_run_exists(page: Path) -> None:
    """Commands inside sentences are too many, and some too long, to run: their parts must be there."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for words in (code.split() for code in re.findall(r"`([^`\n]+)`", prose(page))):
        match words:
            case ["pairframe", word, *_] if word.isalpha():
                assert word in get_command(app).commands  # type: ignore[attr-defined]
            case ["make", target]:
                assert target in targets
            case ["python" | "pytest", file, *_]:
                assert (ROOT / file).exists()
            case ["pip", "install", package]:
                assert package == "." or re.findall(r"\[(.*)\]", package)[0] in extras


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=lambda page: page.name)
def test_a_config_on_a_page_is_one(page: Path) -> None:
    for block in blocks(page, "toml"):
        pf.TransportConfig.from_toml(block)


def test_the_answer_that_is_explained_is_the_one_that_is_printed(tmp_path: Path) -> None:
    page = ROOT / "docs/start.md"
    (printed,) = blocks(page, "text")
    (example,) = blocks(page, "python")
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    # The last digits of a certificate are rounding, which is the machine's business.
    without_rounding = [re.sub(r"\+- \S+|relative gap of \S+", "", text) for text in (printed, done.stdout)]
    assert without_rounding[0] == without_rounding[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
