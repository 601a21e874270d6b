"""Triton source of the tiled engine's passes, and how it is launched, tuned and compiled ahead of time.

Device pointers, sizes and block shapes come in, results are written in place; tensors are checked one floor up, in
`triton_passes` and `grid_softmin`. Importing this package loads no triton; its modules do.
"""
