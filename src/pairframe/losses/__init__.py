"""Transport losses between images, for training: tensors in, values and gradients out.

In: batches of images as torch tensors. Out: divergences, differentiable, and displacement fields, all in pixels. It must not
know of masks on disk, frames or physical units.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("pairframe.losses needs torch: pip install 'pairframe[torch]'") from error

from pairframe.losses.image_loss import ImageLoss

__all__ = ["ImageLoss"]
