"""MASKS: image files and arrays come in, checked `Mask` values and their mass densities go out.

It must not know about pairs, frames, grids or transport.
"""

from pairframe.masks.clean import clean_mask
from pairframe.masks.headers import canvas_shape, count_pages, stack_header
from pairframe.masks.io import list_labels, positive_ids, read_labels, read_mask
from pairframe.masks.mask import Mask
from pairframe.masks.mass import MassMode, mass_density
from pairframe.masks.rle import CocoRle
from pairframe.masks.spec import MaskSpec, parse_spec
from pairframe.masks.write import write_mask

__all__ = [
    "CocoRle",
    "Mask",
    "MaskSpec",
    "MassMode",
    "canvas_shape",
    "clean_mask",
    "count_pages",
    "list_labels",
    "mass_density",
    "parse_spec",
    "positive_ids",
    "read_labels",
    "read_mask",
    "stack_header",
    "write_mask",
]
