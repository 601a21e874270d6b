"""Gradients of the tiled Sinkhorn: potentials or values in, cotangents of cost, points and masses out.

Every mode takes log masses (-inf where there is no mass) and `Settings`, and runs the one loop of `pairframe.tiled.loop`.
Apart from `unrolled`, no mode builds anything of size N x M but the gradient of a stored cost.
"""
