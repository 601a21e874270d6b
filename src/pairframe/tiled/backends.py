"""The choice of passes: torch anywhere, Triton on a GPU. A backend is never replaced by another one silently."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch

from pairframe.tiled.errors import TiledError

BACKENDS = ("auto", "torch", "triton")


def backend_name(backend: str, device: torch.device) -> str:
    """Resolve `backend` on this device to "torch" or "triton"."""
    if backend not in BACKENDS:
        raise TiledError(f"a backend: {', '.join(BACKENDS)}", repr(backend), "use one of these names")
    if backend == "auto":
        return "triton" if device.type == "cuda" and find_spec("triton") is not None else "torch"
    if backend == "torch":
        return backend
    if find_spec("triton") is None:
        raise TiledError(
            "triton to be installed for backend='triton'",
            "no triton",
            "pip install triton, or use backend='torch'",
        )
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise TiledError(
            "tensors on a cuda device for backend='triton'",
            f"tensors on {device}",
            "move them with .cuda(), use backend='torch', or set TRITON_INTERPRET=1 before Python starts "
            "to run the kernels in Triton's interpreter (slow, meant for tests)",
        )
    return backend


def passes_of(name: str) -> ModuleType:
    """The module with the passes of "torch" or "triton"; both have the same functions."""
    return import_module("pairframe.tiled.triton_passes" if name == "triton" else "pairframe.tiled.passes")
