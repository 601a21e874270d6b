"""The core runs with the lowest and the newest versions of its dependencies, on every Python that is installed here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What depends most on other packages: files of masks, stores and their tables, options and messages of the command line.
SUBSET = (
    "masks/test_masks_pixel_size.py",
    "masks/test_masks_io.py",
    "masks/test_masks_bad_files.py",
    "masks/test_masks_lzw.py",
    "results/test_results_roundtrip.py",
    "results/test_results_bad_input.py",
    "results/test_results_units.py",
    "results/test_results_export.py",
    "cli/test_cli_options.py",
    "cli/test_cli.py",
)
MINORS = range(11, 15)
KINDS = ("lowest", "newest")
EXTRAS = ("xarray", "codecs")  # the subset needs them; `test_wheel.py` installs the core alone
SECONDS = 600  # for each command, on a busy machine


def lowest_versions() -> list[str]:
    """The dependencies of the core and of the extras in `EXTRAS`, pinned to their lower bounds."""
    extras = [line for name in EXTRAS for line in METADATA["optional-dependencies"][name]]
    return [re.sub(r">=(\S+)", r"==\1", line) for line in METADATA["dependencies"] + extras]


def pythons() -> dict[str, Path]:
    """An interpreter for each version of Python from 3.11 on that is on the path or in pyenv."""
    found: dict[str, Path] = {}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in MINORS:
        name = f"python3.{minor}"
        candidates = [*sorted(root.glob(f"versions/3.{minor}.*/bin/{name}")), shutil.which(name)]
        for candidate in filter(None, candidates):
            if _can_make_environments(Path(candidate), minor):
                found[f"3.{minor}"] = Path(candidate)
                break
    return found


def _can_make_environments(python: Path, minor: int) -> bool:
    """Whether it is that version, and not a shim without one behind it, and has venv and pip."""
    probe = "import sys, venv, ensurepip; print(sys.version_info[1])"
    done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    return (done.returncode, done.stdout.strip()) == (0, str(minor))


def run(*words: str | Path, cwd: Path | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


def install_and_run(python: Path, kind: str, wheel: Path, place: Path) -> None:
    """Install into an empty environment, run the demo there, then the subset of the tests."""
    own = place / "venv/bin/python"
    run(python, "-m", "venv", "--without-pip", place / "venv")
    pins = place / "pins.txt"
    pins.write_text("\n".join(lowest_versions()) if kind == "lowest" else "")
    pip = (sys.executable, "-m", "pip", "--python", own, "install", "--quiet", "--no-compile", "--only-binary", ":all:")
    run(*pip, "-c", pins, f"{wheel}[{','.join(EXTRAS)}]", "pytest", "hypothesis")
    run(own.parent / "pairframe", "demo", "--quiet", cwd=place)
    assert (place / "pairframe-demo/report.html").stat().st_size > 10_000
    # Old versions warn of what newer ones will change; that is no failure.
    lenient = ("-o", "filterwarnings=default", "-p", "no:cacheprovider", "-q", "-x")
    run(own, "-m", "pytest", *lenient, *(ROOT / "tests" / name for name in SUBSET), cwd=place)


FOUND = pythons()
CASES = [(version, kind) for version in FOUND for kind in KINDS]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Future[None]]]:
    """All cases side by side; most of the time they wait for downloads."""
    probe = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "0"]
    there = subprocess.run(
        [*probe, "--timeout", "20", "--dest", tmp_path_factory.mktemp("probe"), "jinja2==3.1.0"],
        capture_output=True,
        check=False,
    )
    if there.returncode != 0:
        pytest.skip("the package index cannot be reached")
    built = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", built, ROOT)
    (wheel,) = built.glob("*.whl")
    with ThreadPoolExecutor(max_workers=len(CASES)) as pool:
        yield {
            case: pool.submit(install_and_run, FOUND[case[0]], case[1], wheel, tmp_path_factory.mktemp("-".join(case)))
            for case in CASES
        }


@pytest.mark.slow
@pytest.mark.parametrize(("version", "kind"), CASES)
def test_the_core_runs(version: str, kind: str, runs: dict[tuple[str, str], Future[None]]) -> None:
    runs[version, kind].result()


def test_every_dependency_has_a_lowest_version() -> None:
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lowest_versions())


def test_only_versions_of_python_that_can_be_tested_are_claimed() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(METADATA["classifiers"]))
    page = (ROOT / "docs/start.md").read_text()
    tested = re.search(r"tested on Python ([\d., and]+),", page)
    assert tested is not None
    assert re.findall(r"3\.\d+", tested[1]) == claimed
