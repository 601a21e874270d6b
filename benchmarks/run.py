"""Measure pairframe against the installed peers: time to a certified answer, memory and scaling.

    python benchmarks/run.py [--out DIR] [--quick] [--only NAME[,NAME...]] [--part NAME] [--page]

Writes ``benchmarks.md``, ``benchmarks.json`` and ``images/scaling_*.png`` into DIR (default: ``docs``). The whole suite takes
about 35 minutes, ``--quick`` three. ``--part`` measures one part again and keeps the rest of an earlier run; ``--page``
measures nothing and writes the page and the figures of an earlier ``benchmarks.json`` again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from suite.contestants import serve
from suite.jobs import answer
from suite.parts import PARTS
from suite.report import run_bench, write_report
from suite.solvers import SOLVERS

HERE = Path(__file__).parent


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs", metavar="DIR", help="folder to write to")
    parser.add_argument("--quick", action="store_true", help="three minutes instead of half an hour")
    parser.add_argument("--only", type=peers, metavar="NAME[,NAME...]", help=f"contestants: {', '.join(SOLVERS)}")
    parser.add_argument("--part", choices=PARTS, help="measure this part again and keep the others")
    parser.add_argument(
        "--page", action="store_true", help="write page and figures of the earlier run, measure nothing"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)  # a contestant's own process
    return parser


def peers(text: str) -> tuple[str, ...]:
    """Contestants from ``NAME[,NAME...]``."""
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in SOLVERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(SOLVERS)}, got {unknown[0]!r}")
    return names


def main() -> None:
    """Run the suite, or one of its contestants."""
    parser = options()
    chosen = parser.parse_args()
    earlier = chosen.out / "benchmarks.json"
    if chosen.serve:
        serve(answer)
    elif (chosen.part or chosen.page) and not earlier.is_file():
        parser.error(f"--part and --page need the benchmarks.json of an earlier run, and there is no {earlier}")
    elif chosen.page:
        write_report(json.loads(earlier.read_text()), chosen.out)
    else:
        run_bench(chosen.out, quick=chosen.quick, only=chosen.only, part=chosen.part, scripts=HERE)


if __name__ == "__main__":
    main()
