"""What the help says about the fields of a config. A field that is not named here has an option all the same."""

from __future__ import annotations

from pairframe.frame.bucket import BUCKET_MODES
from pairframe.frame.transform import CROP_POLICIES
from pairframe.problem.config import DTYPES, NORMALIZATIONS
from pairframe.problem.reference import METRICS, REFERENCES

MEANING, FRAME, SOLVE = "What is compared", "Frame and work grid", "Solving"
ADVANCED = "For experts"
PANEL_ORDER = (MEANING, FRAME, SOLVE, ADVANCED)

HELP = {
    "blur_um": "Below this length nothing is resolved, µm.",
    "reach_um": "Soft limit on how far mass moves, µm: of what would have to go d, about exp(-d²/(2 reach²)) does; the rest "
    "is destroyed here and created there.",
    "px_size_um": "Side of a pixel, µm; wins over the files. Where nothing tells it, lengths are in pixels.",
    "mass_mode": "Mass of a pixel: uniform, intensity, distance_transform or boundary_band(WIDTH_UM).",
    "penalty": "What created and destroyed mass costs: kl, tv, partial or balanced; one for both, or source,target.",
    "normalization": "joint keeps growth; each gives both masks the mass 1 and spreads growth evenly.",
    "debias": "Take the blur's own displacement out of the velocity.",
    "downsample_factor": "Pixels along the side of a work pixel.",
    "pad": "Margin around both masks, pixels.",
    "crop_policy": "How the frame is chosen: around both masks, a given box, or one of a few shapes.",
    "override_pair_bbox": "The box of crop policy fixed, pixels, ends excluded.",
    "bucket_shapes": "The shapes of crop policy bucketed, work pixels.",
    "bucket_mode": "Which of the shapes that fit is taken.",
    "allow_clipping": "Let the frame cut mass away; the result says how much.",
    "backend": "Engine; `pairframe doctor` lists them.",
    "dtype": "Numbers that the engine uses.",
    "device": "Device of the engine, for those that know several.",
    "tol": "Bound on the relative gap and the marginal error.",
    "max_iterations": "Kernel applications before it gives up; they come in rounds, so it may do a few less or more.",
    "max_support_points": "Sample so many points per mask, for engines that cannot use every pixel.",
    "seed": "Of that sampling.",
    "epsilon": "The blur in cost units (blur² after coord-scale); instead of --blur-um.",
    "marginal_relaxation": "The reach in cost units (reach² after coord-scale); instead of --reach-um.",
    "reference": "Measure that the entropy is taken against.",
    "metric": "Cost of moving: squared distance or distance.",
    "coord_scale": "Multiplies work pixels before costs are taken.",
    "debug": "Check the frame and the books at run time.",
}

PANELS = {
    **dict.fromkeys(("blur_um", "reach_um", "px_size_um", "mass_mode", "penalty", "normalization", "debias"), MEANING),
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
    "crop_policy": CROP_POLICIES,
    "bucket_mode": BUCKET_MODES,
    "normalization": NORMALIZATIONS,
    "dtype": DTYPES,
    "reference": REFERENCES,
    "metric": METRICS,
}

# Lists of whole numbers by their length: form, example.
EXAMPLES = {4: ("Y0,Y1,X0,X1", "0,128,0,256"), 2: ("HxW,HxW", "64x96,64x160")}
