"""Does the lineage find planted divisions, fusions, appearances and disappearances, and real links?

    PAIRFRAME_DATA=... python benchmarks/lineage.py [--quick] [planted] [real]

Planted: crowded scenes with about 1000 events in all, by how far cells move. Real: links against the tracks that come with
the data. Both beside linking by overlap: plain IoU, and shares of overlap under the same rule as the flows. Everything is
counted, nothing is timed. Writes benchmarks/out/lineage.json.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from skimage.measure import regionprops

import pairframe as pf
from harness import write_json
from pairframe.regions import LinkRule, lineage
from pairframe.testing import cell_scene

Links = set[tuple[int, int]]


def overlaps(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
    """Labels of every overlapping pair, its pixels, and the areas of both."""
    both = (source > 0) & (target > 0)
    pairs, count = np.unique(np.stack([source[both], target[both]]), axis=1, return_counts=True)
    area_source, area_target = np.bincount(source.ravel()), np.bincount(target.ravel())
    return pairs[0], pairs[1], count, area_source[pairs[0]], area_target[pairs[1]]


def by_iou(source: np.ndarray, target: np.ndarray, least: float = 0.1) -> Links:
    """Every target with the source of the highest IoU, and every source with the target of the highest."""
    k, t, n, a, b = overlaps(source, target)
    iou = n / (a + b - n)
    links: Links = set()
    for ends in (k, t):
        for label in np.unique(ends):
            own = np.flatnonzero(ends == label)
            best = own[iou[own].argmax()]
            if iou[best] >= least:
                links.add((int(k[best]), int(t[best])))
    return links


def by_overlap(source: np.ndarray, target: np.ndarray, rule: LinkRule) -> Links:
    """The rule of the lineage with shares of overlap instead of flows."""
    k, t, n, a, b = overlaps(source, target)
    kept = (np.maximum(n / a, n / b) >= rule.most) & (np.minimum(n / a, n / b) >= rule.least)
    return set(zip(k[kept].tolist(), t[kept].tolist(), strict=True))


def events_of(links: Links, source: np.ndarray, target: np.ndarray) -> set[tuple[Any, ...]]:
    """All events but plain continuations, each with the labels that take part."""
    children: dict[int, set[int]] = {int(k): set() for k in np.unique(source[source > 0])}
    parents: dict[int, set[int]] = {int(k): set() for k in np.unique(target[target > 0])}
    for k, t in links:
        children[k].add(t)
        parents[t].add(k)
    found: set[tuple[Any, ...]] = set()
    for k, ends in children.items():
        if len(ends) != 1:
            found.add(("splits" if ends else "vanishes", k, tuple(sorted(ends))))
    for t, ends in parents.items():
        if len(ends) != 1:
            found.add(("merges" if ends else "appears", t, tuple(sorted(ends))))
    return found


def far_moves(source: np.ndarray, target: np.ndarray, links: Links) -> np.ndarray:
    """Whether the centroid of each link moves by more than half the distance to the nearest other cell."""
    start, end = (
        np.array([(np.nan, np.nan), *(one.centroid for one in regionprops(labels))]) for labels in (source, target)
    )
    near = cKDTree(start[1:]).query(start[1:], k=2)[0][:, 1]
    return np.array([np.hypot(*(end[t] - start[k])) > 0.5 * near[k - 1] for k, t in links])


def counts(found: set[Any], truth: set[Any]) -> np.ndarray:
    """True positives, found, true."""
    return np.array([len(found & truth), len(found), len(truth)])


def f1(count: np.ndarray) -> float:
    return round(float(2 * count[0] / (count[1] + count[2])), 4) if count[1] + count[2] else 1.0


def planted(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for shift_px, n_scenes in ((3.0, 30), (6.0, 30), (9.0, 8), (12.0, 8), (15.0, 8)):
        total: dict[str, np.ndarray] = {}
        events: dict[str, int] = {}
        far: list[np.ndarray] = []
        for seed in range(1 if quick else n_scenes):
            scene = cell_scene(seed, n_side=10 if quick else 12, shift_px=shift_px)
            truth = set(scene.links)
            happened = events_of(truth, scene.source, scene.target)
            far.append(far_moves(scene.source, scene.target, truth))
            for event in happened:
                events[event[0]] = events.get(event[0], 0) + 1
            links = lineage([scene.source, scene.target]).links
            found = {
                "flow": set(zip(links["source_label"].tolist(), links["target_label"].tolist(), strict=True)),
                "overlap": by_overlap(scene.source, scene.target, LinkRule()),
                "iou": by_iou(scene.source, scene.target),
            }
            for name, chosen in found.items():
                total[f"{name}_links"] = total.get(f"{name}_links", 0) + counts(chosen, truth)
                seen = events_of(chosen, scene.source, scene.target)
                total[f"{name}_events"] = total.get(f"{name}_events", 0) + counts(seen, happened)
        beyond = round(float(np.concatenate(far).mean()), 3)
        row = {
            "shift_px": shift_px,
            "beyond_half_the_distance": beyond,
            "events": events,
            **{f"f1_{name}": f1(count) for name, count in total.items()},
        }
        rows.append(row)
        scores = ", ".join(f"{name} {f1(count)}" for name, count in total.items())
        print(
            f"planted, cells of 24 px moved by up to {shift_px:g} px, {100 * beyond:.0f} % beyond half the distance: {sum(events.values())} events {events}; F1: {scores}"
        )
    return rows


def shifted(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The target's labels, moved by whole pixels as its mask is by ``align="shift"``; what leaves the canvas is lost."""
    dy, dx = (round(step) for step in pf.align(source > 0, target > 0, kind="shift").shift_yx_um)
    height, width = target.shape
    moved = np.zeros_like(target)
    kept = target[max(0, -dy) : height - max(0, dy), max(0, -dx) : width - max(0, dx)]
    moved[max(0, dy) : height + min(0, dy), max(0, dx) : width + min(0, dx)] = kept
    return moved


def tracks_of_running_ids(labels: np.ndarray) -> list[np.ndarray]:
    """Track ids of label images that number all tracks so far in every frame, ``id = track + tracks of the frames before``."""
    before, found = 0, []
    for frame in labels:
        found.append(np.where(frame > 0, frame - before, 0))
        before += int(found[-1].max())
    return found


def true_links(source: np.ndarray, target: np.ndarray, *, divide: bool) -> Links | None:
    """Links between frames with track ids: the same id, or one that ended and two that began; None if several divide at once.

    `divide`: whether a track that ends is a division. Tracks of machines also end because they are lost.
    """
    ids = [set(np.unique(frame[frame > 0]).tolist()) for frame in (source, target)]
    links = {(k, k) for k in ids[0] & ids[1]}
    if not divide:
        return links
    ended, began = ids[0] - ids[1], ids[1] - ids[0]
    if len(ended) == 1 and len(began) == 2:
        links |= {(k, t) for k in ended for t in began}
    return None if len(ended) > 1 and began else links


def tracked(
    name: str, labels: Sequence[np.ndarray], config: pf.TransportConfig | None, *, divide: bool = False
) -> dict[str, Any]:
    """Links against tracks: labels that are the same in all frames. Overlaps are those after the same shift."""
    found = lineage(labels, config)
    total: dict[str, np.ndarray] = {}
    for frame, (source, target) in enumerate(pairwise(labels)):
        truth = true_links(source, target, divide=divide)
        if truth is None:
            print(f"{name}: frame {frame} is left out, as several objects divide at once and ids do not say into which")
            continue
        own = found.links[found.links["frame"] == frame]
        moved = shifted(source, target) if config is not None and config.align == "shift" else target
        chosen = {
            "flow": set(zip(own["source_label"].tolist(), own["target_label"].tolist(), strict=True)),
            "overlap": by_overlap(source, moved, LinkRule()),
            "iou": by_iou(source, moved),
        }
        for method, links in chosen.items():
            total[method] = total.get(method, 0) + counts(links, truth)
    scores = {
        method: {"f1": f1(n), "missed": int(n[2] - n[0]), "extra": int(n[1] - n[0]), "of": int(n[2])}
        for method, n in total.items()
    }
    print(f"{name}: {scores}; {found}")
    return {"data": name, "links": scores, "events": found.events}


def untracked(name: str, labels: np.ndarray, config: pf.TransportConfig | None) -> dict[str, Any]:
    """Events where the data have no tracks, beside those of overlap."""
    found = lineage(labels, config)
    kinds: dict[str, dict[str, int]] = {"flow": {}, "overlap": {}, "iou": {}}
    agree = np.zeros(3, dtype=int)
    for frame, (source, target) in enumerate(pairwise(labels)):
        own = found.links[found.links["frame"] == frame]
        moved = shifted(source, target) if config is not None and config.align == "shift" else target
        chosen = {
            "flow": set(zip(own["source_label"].tolist(), own["target_label"].tolist(), strict=True)),
            "overlap": by_overlap(source, moved, LinkRule()),
            "iou": by_iou(source, moved),
        }
        agree += counts(chosen["flow"], chosen["overlap"])
        for method, links in chosen.items():
            for event in events_of(links, source, target):
                kinds[method][event[0]] = kinds[method].get(event[0], 0) + 1
    n_objects = [len(np.unique(frame[frame > 0])) for frame in labels]
    print(f"{name}: objects {n_objects}; events {kinds}; links of flow and overlap agree to F1 {f1(agree)}")
    return {"data": name, "objects": n_objects, "events": kinds, "agreement_with_overlap": f1(agree)}


def real(quick: bool) -> list[dict[str, Any]]:
    folder = Path(os.environ.get("PAIRFRAME_DATA", ""))
    if not (folder / "usiigaci_t98g_tracked_37f.npz").exists():
        print("PAIRFRAME_DATA does not name a folder with the real data: nothing to measure")
        return []

    def labels(name: str, n: int) -> np.ndarray:
        with np.load(folder / name) as found:
            return np.asarray(found["labels"][: 4 if quick else n], dtype=np.int64)

    colony = labels("ecoli_trpL_colony_20f.npz", 20)
    coarse = pf.TransportConfig(downsample_factor=4)
    drifting = pf.TransportConfig(downsample_factor=4, align="shift")
    return [
        tracked("T98G cells (machine tracks)", labels("usiigaci_t98g_tracked_37f.npz", 37), coarse),
        tracked("E. coli colony on a drifting stage", tracks_of_running_ids(colony), drifting, divide=True),
        untracked("E. coli colony on a drifting stage", colony, drifting),
        untracked("laptrack, cell segmentation", labels("laptrack_cell_segmentation_10f.npz", 10), None),
        untracked("laptrack, interactive fix", labels("laptrack_interactive_fix_6f.npz", 6), None),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("rows", nargs="*", default=["planted", "real"])
    given = parser.parse_args()
    jobs = {"planted": planted, "real": real}
    content = {name: jobs[name](given.quick) for name in given.rows}
    if not given.quick:
        write_json("lineage", content)
