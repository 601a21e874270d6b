"""The Triton kernels of the tiled engine's passes, their block shapes, and how they are launched and tuned.

Device pointers, sizes and block shapes come in; results are written in place. Tensors are checked by the callers,
`triton_passes` and `grid_softmin`. Importing this package does not load Triton; its modules do.
"""
