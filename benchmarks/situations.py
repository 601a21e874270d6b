"""Do situations with a known truth get the right notices, and no wrong ones?

    python benchmarks/situations.py
    python benchmarks/situations.py --held-out

Compares every situation of `pairframe.testing.situations` at three sizes and writes the confusion table into docs/notices.md, and every
notice into benchmarks/out/situations.json.
With `--held-out` it prints what is not as expected at three other sizes, with the pictures turned on their side.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

import pairframe as pf
from harness import write_json
from pairframe.testing.situations import SIZES_PX, codes_of, situations

PAGE = Path(__file__).parents[1] / "docs" / "notices.md"
HELD_OUT_PX = (36, 64, 120)
BEGIN, END = "<!-- situations: begin, written by benchmarks/situations.py -->", "<!-- situations: end -->"


def table(sizes_px: tuple[int, ...] = SIZES_PX) -> str:
    """The situations with their notices, and below it right, missed and wrong notices by code."""
    given: dict[str, list[set[str]]] = {}
    wanted: dict[str, frozenset[str]] = {}
    for size_px in sizes_px:
        for situation in situations(size_px):
            wanted[situation.name] = situation.codes
            given.setdefault(situation.name, []).append(codes_of(situation, pf.compare, pf.TransportConfig))
            print(size_px, situation.name, sorted(given[situation.name][-1]), file=sys.stderr, flush=True)
    found_codes = {name: [sorted(one) for one in found] for name, found in given.items()}
    write_json("situations", {"sizes_px": sizes_px, "notices": found_codes})
    lines = ["| situation | notices it should get | right, of 3 sizes |", "|---|---|---|"]
    right, missed, wrong = Counter[str](), Counter[str](), Counter[str]()
    for name, found in given.items():
        codes = ", ".join(f"`{code}`" for code in sorted(wanted[name])) or "none"
        lines.append(f"| {name} | {codes} | {sum(one == wanted[name] for one in found)} |")
        for one in found:
            right.update(one & wanted[name])
            missed.update(wanted[name] - one)
            wrong.update(one - wanted[name])
    lines += ["", "| notice | given rightly | missed | given wrongly |", "|---|---|---|---|"]
    for code in sorted({*right, *missed, *wrong}):
        lines.append(f"| `{code}` | {right[code]} | {missed[code]} | {wrong[code]} |")
    n = sum(len(found) for found in given.values())
    silent = sum(not one and not wanted[name] for name, found in given.items() for one in found)
    lines.append(f"| none | {silent} of {n} comparisons | – | – |")
    return "\n".join(lines)


def print_held_out() -> None:
    """Sizes at which no threshold was chosen."""
    right = total = 0
    for size_px in HELD_OUT_PX:
        for situation in situations(size_px):
            source, target = (np.ascontiguousarray(np.rot90(mask)) for mask in (situation.source, situation.target))
            found = codes_of(replace(situation, source=source, target=target), pf.compare, pf.TransportConfig)
            total += 1
            right += found == situation.codes
            if found != situation.codes:
                more, fewer = sorted(found - situation.codes), sorted(situation.codes - found)
                print(f"{size_px} px, {situation.name}: also {more}, missing {fewer}", flush=True)
    print(f"{right} of {total} as expected")


if __name__ == "__main__" and "--held-out" in sys.argv:
    print_held_out()
elif __name__ == "__main__":
    text = PAGE.read_text()
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(f"{text[:start]}\n\n{table()}\n\n{text[stop:]}")
