"""Help texts for the fields of a config. A field that is missing here still has an option."""

from __future__ import annotations

from pairframe.frame.bucket import BUCKET_MODES
from pairframe.frame.transform import CROP_POLICIES
from pairframe.masks.mass import MASS_MODES
from pairframe.problem.config import ALIGN_KINDS, DTYPES, NORMALIZATIONS
from pairframe.problem.reference import METRICS, REFERENCES

MEANING, CLEANING, FRAME, SOLVE = "Comparison", "Cleaning of masks", "Frame and work grid", "Solving"
ADVANCED = "Advanced"
PANEL_ORDER = (MEANING, CLEANING, FRAME, SOLVE, ADVANCED)

HELP = {
    "blur_um": "Details smaller than this length are not resolved, µm.",
    "reach_um": "How far mass may move, µm; mass that would have to go farther is destroyed here and created there. With "
    "--penalty kl the limit is soft.",
    "moved_mass": "Move exactly this much mass (pixels), the cheapest way; instead of --reach-um.",
    "moved_share": "The same as a share of the smaller mask, 0 to 1.",
    "px_size_um": "Side of a pixel, µm, or sides Z,Y,X of a voxel; overrides the files. If no pixel size is known, lengths are in "
    "pixels.",
    "volume": "Whether the planes of a stack are one volume (z, y, x), or images. If neither is given, a stack is a volume only if OME "
    "or NIfTI metadata say so.",
    "mass_mode": f"Mass of a pixel: {', '.join(MASS_MODES[:-1])} or {MASS_MODES[-1]}.",
    "penalty": "What growth means. partial: least motion, new mass appears where no mass can have come from within reach. "
    "balanced: all mass moves; with --normalization each, even growth. kl: even growth if the reach is long. tv: as partial, "
    "but pixels may send more than they hold. One for both sides, or source,target.",
    "normalization": "joint keeps growth; each gives both masks the mass 1 and spreads growth evenly.",
    "debias": "Correct the displacement for the bias of the blur.",
    "downsample_factor": "Pixels along the side of a work pixel.",
    "pad": "Margin around both masks, pixels; a quarter of it in volumes.",
    "crop_policy": "How to choose the frame: around both masks, a fixed box, or one of a few shapes.",
    "override_pair_bbox": "The box for --crop-policy fixed, pixels, ends excluded.",
    "bucket_shapes": "The shapes for --crop-policy bucketed, work pixels.",
    "bucket_mode": "Which of the shapes that fit to use.",
    "allow_clipping": "Let the frame cut off mass; the result records how much.",
    "backend": "Engine; `pairframe doctor` lists them.",
    "dtype": "Floating-point type of the engine.",
    "device": "Device, for engines that support several.",
    "tol": "Bound on the relative gap and the marginal error.",
    "max_iterations": "Maximum number of kernel applications. They come in rounds, so the actual number may differ by a few.",
    "max_support_points": "Sample this many points per mask, for engines that cannot use every pixel.",
    "seed": "Random seed of the sampling.",
    "epsilon": "The blur in cost units (blur² after coord-scale); instead of --blur-um.",
    "marginal_relaxation": "Lambda itself, in cost units after coord-scale (reach² for kl, reach²/2 for partial and tv); instead of "
    "--reach-um.",
    "reference": "Reference measure of the entropy.",
    "metric": "Cost of moving: squared distance or distance.",
    "coord_scale": "Factor on work coordinates before costs are computed.",
    "align": "Move the target onto the source first; none compares the masks as they are.",
    "allow_flip": "Let the alignment mirror the target.",
    "strain": "Also map how the tissue is stretched (gradient of the displacement) and where it grows.",
    "invert": "Take the background of both masks for the objects.",
    "min_area_um2": "Drop objects with a smaller area, µm² (px without a pixel size).",
    "largest": "Keep only the largest object of each mask.",
    "fill_holes": "Fill the holes of the objects.",
    "error_bars": "Add error bars for uncertain outlines: the interval of every main number, for about 1 to 5 comparisons more.",
    "rim_um": "Uncertainty of the outlines, µm, one standard deviation; turns on --error-bars.",
    "rim_correlation_um": "Distance along an outline over which its errors are alike, µm.",
    "debug": "Check the frame and the mass balance at run time.",
}

PANELS = {
    **dict.fromkeys(("invert", "min_area_um2", "largest", "fill_holes"), CLEANING),
    **dict.fromkeys(
        (
            "blur_um",
            "reach_um",
            "moved_mass",
            "moved_share",
            "px_size_um",
            "volume",
            "mass_mode",
            "penalty",
            "normalization",
            "debias",
            "align",
            "allow_flip",
            "strain",
            "error_bars",
            "rim_um",
            "rim_correlation_um",
        ),
        MEANING,
    ),
    **dict.fromkeys(
        (
            "downsample_factor",
            "pad",
            "crop_policy",
            "override_pair_bbox",
            "bucket_shapes",
            "bucket_mode",
            "allow_clipping",
        ),
        FRAME,
    ),
    **dict.fromkeys(("backend", "dtype", "device", "tol", "max_iterations", "max_support_points", "seed"), SOLVE),
}

CHOICES = {
    "align": ALIGN_KINDS,
    "crop_policy": CROP_POLICIES,
    "bucket_mode": BUCKET_MODES,
    "normalization": NORMALIZATIONS,
    "dtype": DTYPES,
    "reference": REFERENCES,
    "metric": METRICS,
}

# Lists of integers by their length: form, example.
EXAMPLES = {4: ("Y0,Y1,X0,X1", "0,128,0,256"), 2: ("HxW,HxW", "64x96,64x160")}
