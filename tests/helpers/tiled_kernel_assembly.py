"""Compile the Triton kernels ahead of time, without a GPU, and read the assembler's report."""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pairframe.tiled.kernels.configs import GRID, Blocks, Shape, choices, elementwise

CAPABILITIES = (80, 90)  # A100, H100
_WIDE = {"stride_b", "out_b", "out_r", "means_b", "means_c", "means_r"}  # may pass 2^31 entries


@dataclass(frozen=True)
class Variant:
    """A kernel with one choice of dtypes, constants and blocks.

    Attributes
    ----------
    pointers : name -> "fp32", "fp64", "bf16"
    constants : name -> value of every constexpr, and of strides that are 1.
    """

    name: str
    kernel: str  # "module:function" in pairframe.tiled.kernels
    pointers: dict[str, str]
    constants: dict[str, Any]
    blocks: Blocks
    floats: frozenset[str] = field(default=frozenset())
    is_main: bool = False


@dataclass(frozen=True)
class Assembled:
    """The report of ptxas on a kernel, per thread, and the shared memory of a block in bytes."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int


def variants() -> Iterator[Variant]:
    """All kernels x dtypes x block choices; `is_main` marks the first choice of the commonest settings."""
    for data, acc in (("fp32", "fp32"), ("bf16", "fp32"), ("fp64", "fp64")):
        for turned, dim in ((False, 0), (True, 0), (False, 2), (False, 3), (False, 16), (False, 64)):
            product = dim == 64 and acc == "fp32"
            for wide in (False, True):
                for rank, blocks in enumerate(choices(Shape(turned, acc == "fp64", product, wide))):
                    is_main = rank == 0 and data != "bf16" and dim in (0, 2, 64)
                    yield from _streaming(data, acc, turned, dim, product, wide, blocks, is_main)
        blocks = elementwise(acc == "fp64")
        pointers = {"cost": data, **dict.fromkeys(("log_p", "log_q", "u", "v", "scale", "out"), acc)}
        constants = {"stride_q": 1, "out_q": 1}
        yield Variant(
            f"dense_gradient {data}", "gradient:dense_gradient_kernel", pointers, constants, blocks, is_main=True
        )
    for acc, fast in (("fp32", False), ("fp64", False), ("fp64", True)):
        for means in (False, True):
            pointers = dict.fromkeys(("h", "tile_top", "phi", "scale", "out", "means"), acc)
            constants = {"FAST_EXP": fast, "WITH_MEANS": means}
            name = f"grid_pass {acc}{' fast exp' if fast else ''}{' means' if means else ''}"
            yield Variant(name, "grid:grid_pass_kernel", pointers, constants, GRID, frozenset({"cut"}), is_main=True)


def _streaming(
    data: str, acc: str, turned: bool, dim: int, product: bool, wide: bool, blocks: Blocks, is_main: bool
) -> Iterator[Variant]:
    of = f"{data} {f'points d={dim}' if dim else 'columns' if turned else 'rows'} {blocks.bp}x{blocks.bq}"
    cost = dict.fromkeys(("cost", "x", "y"), data)
    both = dict.fromkeys(("log_p", "log_q", "scale", "out"), acc)
    constants = {"DIM": dim, "PRODUCT": product, ("stride_p" if turned else "stride_q"): 1}
    times = {**cost, **both, "values": acc}
    if not wide:
        logs = {"log_weight": acc, "scale": acc, "out": acc}
        yield Variant(f"log_sum {of}", "log_sum:log_sum_kernel", {**cost, **logs}, constants, blocks, is_main=is_main)
        yield Variant(f"plan_cost {of}", "plan:plan_cost_kernel", {**cost, **both}, constants, blocks)
        yield Variant(
            f"plan_times_vector {of}", "plan:plan_times_vector_kernel", times, constants, blocks, is_main=is_main
        )
        return
    with_columns = {**constants, "KB": 8}
    yield Variant(f"plan_times_matrix {of}", "plan:plan_times_matrix_kernel", times, with_columns, blocks)
    if dim:
        pointers = {"x": data, "y": data, **both, "u": acc, "v": acc}
        of_points = {"DIM": dim, "PRODUCT": product, "KB": min(8, 1 << (dim - 1).bit_length())}
        name = f"point_gradient {of}"
        yield Variant(name, "gradient:point_gradient_kernel", pointers, of_points, blocks, is_main=is_main and dim == 2)


def assemble(variant: Variant, capability: int, divisible: bool = False) -> Assembled:
    """Compile for ``sm_<capability>`` with Triton and its own ptxas; needs neither a GPU nor a driver.

    `divisible` compiles for sizes and strides that are multiples of 16, which Triton treats as a separate case.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas, sm_arch_from_capability

    module, function = variant.kernel.split(":")
    kernel = getattr(importlib.import_module(f"pairframe.tiled.kernels.{module}"), function)
    constants = {**variant.constants, "BP": variant.blocks.bp, "BQ": variant.blocks.bq}
    signature = {name: _kind(name, variant, constants) for name in kernel.arg_names}
    aligned = [["tt.divisibility", 16]]  # as torch allocates
    attributes = {
        (place,): aligned
        for place, (name, kind) in enumerate(signature.items())
        if name in variant.pointers or (divisible and kind in ("i32", "i64") and name != "offset")
    }
    source = triton.compiler.ASTSource(kernel, signature, constants, attributes)
    blocks = variant.blocks
    options = {"num_warps": blocks.warps, "num_stages": blocks.stages, "maxnreg": blocks.registers}
    built = triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={**options, "enable_fp_fusion": True}
    )
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernel.ptx"
        ptx.write_text(built.asm["ptx"])
        command = [get_ptxas(capability).path, "-v", f"--gpu-name={sm_arch_from_capability(capability)}"]
        report = subprocess.run(
            [*command, str(ptx), "-o", str(ptx.with_suffix(".cubin"))], check=True, capture_output=True, text=True
        ).stderr
    return Assembled(
        registers=_number(r"Used (\d+) registers", report),
        spill_stores=_number(r"(\d+) bytes spill stores", report),
        spill_loads=_number(r"(\d+) bytes spill loads", report),
        stack=_number(r"(\d+) bytes stack frame", report),
        shared=int(built.metadata.shared),
    )


def _kind(name: str, variant: Variant, constants: dict[str, Any]) -> str:
    if name in constants:
        return "constexpr"
    if name in variant.pointers:
        return f"*{variant.pointers[name]}"
    if name in variant.floats:
        return "fp32"
    return "i64" if name in _WIDE else "i32"


def _number(pattern: str, report: str) -> int:
    found = re.search(pattern, report)
    if found is None:
        raise RuntimeError(f"no {pattern!r} in the report of ptxas:\n{report}")
    return int(found.group(1))
