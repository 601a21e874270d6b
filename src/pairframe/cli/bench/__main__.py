"""``python -m pairframe.cli.bench DIR``: write the page and the figures of DIR/benchmarks.json again, and measure nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pairframe.cli.bench.command import write_report

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_report(json.loads((folder / "benchmarks.json").read_text()), folder)
