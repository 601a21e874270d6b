"""What compiled functions share."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest
from numba import njit, typeof

from pairframe.compiler import compiled
from pairframe.engines.grid.passes import exp_shifted, log_of_sums, products


def again(function):
    """A compiled function once more, not from the disk."""
    options = {name: value for name, value in function.targetoptions.items() if name in ("fastmath", "error_model")}
    return njit(**options)(function.py_func)


def test_division_by_zero_gives_inf_or_nan() -> None:
    ratio = again(compiled()(lambda x, y: x / y))
    assert ratio(1.0, 0.0) == np.inf
    assert np.isnan(ratio(0.0, 0.0))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the machine code of x86-64")
@pytest.mark.parametrize("function", [exp_shifted, log_of_sums, products], ids=lambda one: one.py_func.__name__)
def test_inner_loops_become_vector_code(function) -> None:
    """One check in a loop, such as that for a division by zero, leaves scalar code of a third of the speed."""
    x, bits = np.ones(9), np.ones(9, np.int64)
    arguments = {
        "exp_shifted": (x, 1.0, -1.0, 1.0, x, x, bits, 9),
        "log_of_sums": (x, bits, 1.0, x, bits, x, bits, 9),
        "products": (x, 1, x, 9, 9, x),
    }
    other = again(function)
    other.compile(tuple(map(typeof, arguments[function.py_func.__name__])))
    code = next(iter(other.inspect_asm().values()))
    assert re.search(r"(mul|fmadd\d*)pd\s.*%[yz]mm|mulpd\s.*%xmm", code), "no product of several numbers at once"
    if re.search(r"divsd\s", code):  # the last few numbers
        assert re.search(r"divpd\s", code), "divided one by one"
