"""
Save a result and load it again
===============================

Results are saved as plain Zarr and Parquet, with the unit of every number. They load bit for bit, and other programs can
read them without pairframe.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from zarr.storage import ZipStore

import pairframe as pf
from pairframe.report.figures import new_figure
from pairframe.testing import growing_embryo

# %%
# Save, load, and compare the maps.
early, late = growing_embryo(6, (128, 288))[1:4:2]
result = pf.compare(early, late, pf.TransportConfig(px_size_um=20.0))
folder = tempfile.TemporaryDirectory()
out = Path(folder.name, "results")
result.save(out, pair_id="embryo 1, 24 to 28 hpf")
again = pf.load(out)
for name in ("mass_created", "mass_destroyed", "velocity_field", "cost_source"):
    same = np.array_equal(getattr(result, name), getattr(again, name), equal_nan=True)
    print(f"{name:15} {'identical' if same else 'DIFFERENT'}")
print(f"objective       {again.objective!r}, status {again.status}, engine {again.backend}")

# %%
# The table is Parquet, which pandas, DuckDB, R and others can read. It has one row per pair.
table = pd.read_parquet(out / "results.parquet")
print(table[["pair_id", "status", "percent_created", "percent_destroyed", "relative_gap"]].T.to_string(header=False))

# %%
# The maps of a pair are one zip file, a Zarr group with coordinates in um, so xarray can select a region by its position.
maps = xr.open_zarr(ZipStore(out / "maps.zarr" / f"{table['maps_group'][0]}.zarr.zip"), chunks=None)
created = maps["mass_created"]
tail = created.sel(x_um=slice(3800, None))
print(
    f"{created.attrs['long_name']}, {created.attrs['units']}; {float(tail.sum() / created.sum()):.0%} of it in the tail"
)

# %%
# Draw the map on these coordinates, with the outline of the target.
figure = new_figure(9.0, 3.6)
ax = figure.add_subplot()
image = ax.pcolormesh(maps["x_um"], maps["y_um"], created.where(created > 0), cmap="Greens", vmin=0.0, vmax=1.0)
ax.contour(maps["x_um"], maps["y_um"], maps["mass_target"], levels=[0.5], colors="0.5", linewidths=0.8)
ax.axvspan(3800, float(maps["x_um"][-1]), color="0.5", alpha=0.15, label="the tail")
ax.set_aspect("equal")
ax.invert_yaxis()
ax.set_xlabel("x (µm)")
ax.set_ylabel("y (µm)")
ax.legend(frameon=False, loc="lower left")
figure.colorbar(image, ax=ax, label="created mass per pixel")
figure.savefig("store_and_reload.png", dpi=90)
maps.close()
folder.cleanup()
