"""Figures of frames, results and analyses: pure functions, colour-blind safe, in image coordinates, with scale bars.

To add a figure, write its function in a module of this folder and export it here.
It reads no files and solves nothing.
"""

from pairframe.report.figures.arrows import N_ARROWS, velocity_arrows
from pairframe.report.figures.convergence import convergence_plot
from pairframe.report.figures.frame import MAX_GRID_LINES, frame_overview
from pairframe.report.figures.morph import morph_strip
from pairframe.report.figures.motion import (
    created_on_target_map,
    deformation_arrows,
    motion_figure,
    motion_size_in,
    whole_motion_arrows,
)
from pairframe.report.figures.movie import write_movie
from pairframe.report.figures.panels import (
    cost_source_map,
    cost_target_map,
    created_map,
    destroyed_map,
    pair_overlay,
    speed_map,
)
from pairframe.report.figures.summary import result_overview, summary_figure, summary_size_in
from pairframe.report.figures.sweep import sweep_figure, sweep_size_in
from pairframe.report.figures.thumbnail import thumbnail
from pairframe.report.interpolation import Interpolation, interpolation_frames
from pairframe.report.style import (
    BUCKET_COLOUR,
    CREATED_COLOUR,
    CREATED_MAP,
    CROP_COLOUR,
    DESTROYED_COLOUR,
    DESTROYED_MAP,
    SOURCE_COLOUR,
    SPEED_MAP,
    TARGET_COLOUR,
    add_scale_bar,
    new_figure,
)

__all__ = [
    "BUCKET_COLOUR",
    "CREATED_COLOUR",
    "CREATED_MAP",
    "CROP_COLOUR",
    "DESTROYED_COLOUR",
    "DESTROYED_MAP",
    "MAX_GRID_LINES",
    "N_ARROWS",
    "SOURCE_COLOUR",
    "SPEED_MAP",
    "TARGET_COLOUR",
    "Interpolation",
    "add_scale_bar",
    "convergence_plot",
    "cost_source_map",
    "cost_target_map",
    "created_map",
    "created_on_target_map",
    "deformation_arrows",
    "destroyed_map",
    "frame_overview",
    "interpolation_frames",
    "morph_strip",
    "motion_figure",
    "motion_size_in",
    "new_figure",
    "pair_overlay",
    "result_overview",
    "speed_map",
    "summary_figure",
    "summary_size_in",
    "sweep_figure",
    "sweep_size_in",
    "thumbnail",
    "velocity_arrows",
    "whole_motion_arrows",
    "write_movie",
]
