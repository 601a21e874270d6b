"""The Triton kernels compile ahead of time for A100 and H100 without register spills; this needs no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.tiled_kernel_assembly import CAPABILITIES, Variant, assemble, variants

from pairframe.tiled import kernels

ALL = list(variants())


def assert_no_spills(variant: Variant, capability: int, divisible: bool) -> None:
    found = assemble(variant, capability, divisible)
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0), found
    assert found.registers <= variant.blocks.registers
    assert found.shared <= 48 * 1024


@pytest.fixture(autouse=True)
def _compile_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


QUICK = [variant for variant in ALL if variant.is_main and "fp32" in variant.name and "columns" not in variant.name]


@pytest.mark.parametrize("variant", QUICK, ids=lambda variant: variant.name)
def test_the_main_kernels_compile_without_spills(variant: Variant) -> None:
    assert_no_spills(variant, 80 if ALL.index(variant) % 2 else 90, divisible=False)


@pytest.mark.slow
@pytest.mark.parametrize("divisible", [False, True], ids=["any size", "multiples of 16"])
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("variant", ALL, ids=lambda variant: variant.name)
def test_every_kernel_compiles_without_spills(variant: Variant, capability: int, divisible: bool) -> None:
    assert_no_spills(variant, capability, divisible)


def test_every_kernel_is_among_those_that_are_compiled() -> None:
    folder = Path(kernels.__file__).parent
    defined = {
        line.removeprefix("def ").split("(")[0]
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith("def ") and "_kernel(" in line
    }
    assert defined == {variant.kernel.split(":")[1] for variant in ALL}
