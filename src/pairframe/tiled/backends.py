"""The choice of passes: torch anywhere, Triton on a GPU. A backend is never replaced by another one silently."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch

from pairframe.tiled.errors import TiledError
from pairframe.tiled.small.model import is_small
from pairframe.tiled.strips import n_threads

_MODULES = {
    "compiled": "pairframe.tiled.compiled_passes",
    "torch": "pairframe.tiled.passes",
    "triton": "pairframe.tiled.triton_passes",
}
BACKENDS = ("auto", "compiled", "torch", "triton")


def backend_name(backend: str, device: torch.device) -> str:
    """Resolve `backend` on this device to "compiled", "torch" or "triton"; "auto" does not look at the size here."""
    if backend not in BACKENDS:
        raise TiledError(f"a backend: {', '.join(BACKENDS)}", repr(backend), "use one of these names")
    if backend == "auto":
        return "triton" if device.type == "cuda" and find_spec("triton") is not None else "torch"
    if backend == "torch":
        return backend
    if backend == "compiled":
        if device.type != "cpu":
            raise TiledError(
                "tensors on the CPU for backend='compiled'", f"tensors on {device}", "use .cpu(), or backend='auto'"
            )
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


def backend_for(backend: str, device: torch.device, batch: int, n: int, m: int) -> str:
    """Resolve `backend` for problems of this size: "auto" is "compiled" for small ones on the CPU."""
    name = backend_name(backend, device)
    is_free = backend == "auto" and device.type == "cpu"
    return "compiled" if is_free and is_small(batch, n, m, n_threads()) else name


def passes_of(name: str) -> ModuleType:
    """The module with the passes of "compiled", "torch" or "triton"; all have the same functions."""
    return import_module(_MODULES[name])
