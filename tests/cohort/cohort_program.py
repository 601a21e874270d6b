"""A run as a program of its own, so that a test can interrupt and kill it: MANIFEST OUT [DASK_ADDRESS]."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    import typer
    from helpers.cohort_cases import CONFIG

    from pairframe.cli.run import run_run
    from pairframe.cli.run_options import RunOptions
    from pairframe.cli.terminal import exit_codes

    manifest, out, *address = sys.argv[1:]
    dask = address[0] if address else None
    options = RunOptions([manifest], Path(out), jobs=None if address else 2, client=dask, report=False)
    try:
        with exit_codes():
            run_run(options, CONFIG)
    except typer.Exit as end:
        sys.exit(end.exit_code)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
