"""FRAME: two canonical arrays come in, one shared `GridTransform` goes out.

It owns every coordinate and unit between the canonical image and the work grid. Boxes, pooling and lifting work for any
number of axes; `BoxYX` and `GridTransform` are their face for images. It must not know about files, costs or engines.
"""

from pairframe.frame.box import Box, BoxYX, tight_box
from pairframe.frame.bucket import pick_bucket, propose_bucket_shapes
from pairframe.frame.transform import GridTransform

__all__ = ["Box", "BoxYX", "GridTransform", "pick_bucket", "propose_bucket_shapes", "tight_box"]
