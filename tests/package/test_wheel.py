"""The wheel is whole: it installs into an empty environment and runs the demo there."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_installs_and_runs_the_demo(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "build", "--outdir", tmp_path, ROOT], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    (source,) = tmp_path.glob("*.tar.gz")
    pages = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "constraints.txt"}
    with tarfile.open(source) as archive:
        assert pages <= {name.partition("/")[2] for name in archive.getnames()}
    names = zipfile.ZipFile(wheel).namelist()
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    description = zipfile.ZipFile(wheel).read(metadata).decode().partition("\n\n")[2]
    assert description.startswith("# pairframe\n")
    assert re.findall(r"\]\((?!https?://).*?\)", description) == []  # no link and no picture leads nowhere
    assert "```python\nimport pairframe as pf" in description
    assert {"pairframe/py.typed", "pairframe/__init__.pyi", "pairframe/napari.yaml"} <= set(names)
    templates = {
        f"pairframe/report/templates/{path.name}" for path in (ROOT / "src/pairframe/report/templates").iterdir()
    }
    assert templates <= set(names)
    assert not [name for name in names if "tests/" in name or "bench" in name]
    python = tmp_path / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel], check=True)
    done = subprocess.run(
        [python.parent / "pairframe", "demo"], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert "pairframe-demo/report.html" in done.stdout
    assert (tmp_path / "pairframe-demo/report.html").stat().st_size > 10_000
    assert (tmp_path / "pairframe-demo/results.parquet").exists()
