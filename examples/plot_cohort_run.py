"""
Run a cohort, and resume it
===========================

Compare two series of masks in a folder and write a folder of results: a table with one row per pair, and the maps. Running
the same call again compares only pairs that are new or have changed. On the command line,
``pairframe run masks --out results`` does the same and also writes a report.
"""

import tempfile
from pathlib import Path

import pairframe as pf
from pairframe.cohort import run_cohort
from pairframe.report.figures import new_figure
from pairframe.results import ResultStore
from pairframe.testing import embryo

CONFIG = pf.TransportConfig(px_size_um=20.0, downsample_factor=2)


# %%
# Write masks in a typical layout: one folder per embryo, one file per frame. The second embryo grows less.
def write_masks(folder):
    for series, longer_px in (("fast", 16.0), ("slow", 5.0)):
        (folder / series).mkdir(parents=True)
        for frame in range(5):
            mask = embryo((64, 160), length_px=80 + longer_px * frame / 2, thickness_px=9, yolk_px=16)
            pf.write_mask(pf.Mask.from_array(mask), folder / series / f"t{frame}.png")


# %%
# Plot two columns of the table, one line per series.
def draw(table):
    figure = new_figure(9.0, 3.4)
    panels = (("percent_created", "created (% of the target)"), ("mean_displacement_um", "displacement (µm)"))
    for ax, (column, label) in zip(figure.subplots(1, 2), panels, strict=True):
        for marker, (series, rows) in zip("os", table.groupby("series"), strict=False):
            ax.plot(rows["frame"], rows[column], marker=marker, label=series)
        ax.set_xticks(sorted(set(table["frame"])))
        ax.set_xlabel("frame")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    figure.savefig("cohort_run.png", dpi=90)
    return figure


# %%
# Worker processes import this file, so code that must run only once belongs under this guard.
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        masks, results = Path(name, "masks"), Path(name, "results")
        write_masks(masks)
        first = run_cohort(masks, results, CONFIG, jobs=2)
        print(f"first run: {first.done} done, {first.failed} failed, {first.skipped} skipped (already done)")
        again = run_cohort(masks, results, CONFIG, jobs=2)
        print(f"second run: {again.done} done, {again.failed} failed, {again.skipped} skipped (already done)")
        table = ResultStore(results).table()
        print(table[["pair_id", "status", "percent_created", "mean_displacement_um"]].round(2).to_string(index=False))
        figure = draw(table)
