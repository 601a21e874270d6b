"""Figures of frames, results and analyses: pure functions, colour-blind safe, in image coordinates, with scale bars.

To add a figure, write its function in a module of this folder and export it here.
It reads no files and solves nothing.
"""

from pairframe.report.figures.arrows import N_ARROWS, velocity_arrows
from pairframe.report.figures.axis import AXIS_SIZE_IN, axis_figure, axis_map
from pairframe.report.figures.contact_sheet import Tile, contact_sheet
from pairframe.report.figures.convergence import convergence_plot
from pairframe.report.figures.drift import drift_figure
from pairframe.report.figures.flows import flow_figure, flow_matrix, flow_ribbons
from pairframe.report.figures.frame import MAX_GRID_LINES, frame_overview
from pairframe.report.figures.lineage import track_colours, write_lineage_movie
from pairframe.report.figures.morph import morph_strip
from pairframe.report.figures.motion import (
    alignment_figure,
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
from pairframe.report.figures.radial import RADIAL_SIZE_IN, is_radial, radial_figure
from pairframe.report.figures.strain import (
    anisotropy_map,
    areal_expansion_map,
    local_growth_map,
    strain_figure,
    strain_size_in,
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
    "AXIS_SIZE_IN",
    "BUCKET_COLOUR",
    "CREATED_COLOUR",
    "CREATED_MAP",
    "CROP_COLOUR",
    "DESTROYED_COLOUR",
    "DESTROYED_MAP",
    "MAX_GRID_LINES",
    "N_ARROWS",
    "RADIAL_SIZE_IN",
    "SOURCE_COLOUR",
    "SPEED_MAP",
    "TARGET_COLOUR",
    "Interpolation",
    "Tile",
    "add_scale_bar",
    "alignment_figure",
    "anisotropy_map",
    "areal_expansion_map",
    "axis_figure",
    "axis_map",
    "contact_sheet",
    "convergence_plot",
    "cost_source_map",
    "cost_target_map",
    "created_map",
    "created_on_target_map",
    "deformation_arrows",
    "destroyed_map",
    "drift_figure",
    "flow_figure",
    "flow_matrix",
    "flow_ribbons",
    "frame_overview",
    "interpolation_frames",
    "is_radial",
    "local_growth_map",
    "morph_strip",
    "motion_figure",
    "motion_size_in",
    "new_figure",
    "pair_overlay",
    "radial_figure",
    "result_overview",
    "speed_map",
    "strain_figure",
    "strain_size_in",
    "summary_figure",
    "summary_size_in",
    "sweep_figure",
    "sweep_size_in",
    "thumbnail",
    "track_colours",
    "velocity_arrows",
    "whole_motion_arrows",
    "write_lineage_movie",
    "write_movie",
]
