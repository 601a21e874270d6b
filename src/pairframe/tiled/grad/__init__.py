"""Gradients of the tiled Sinkhorn: potentials or values in, cotangents of cost, points and masses out.

Every mode speaks the same language: log masses (-inf where there is none), a `Rule`, and the passes of a backend.
It must not know how `sinkhorn` stops, nor build anything of size N x M beside the gradient of a stored cost.
"""
