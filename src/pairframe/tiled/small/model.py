"""The cost model: which problems are small, which batches are worth threads, and which distances are worth storing."""

from __future__ import annotations

# Nanoseconds per entry and iteration, on one core of an AMD EPYC: the compiled loop reads a stored kernel once, the passes of
# torch take an exponential per entry, spread over threads, and some hundred calls per iteration.
COMPILED_NS, TORCH_NS, TORCH_CALLS_NS = 0.2, 1.5, 120_000.0
LARGEST = 1 << 20  # entries of a problem: its kernel and its scaled cost take 16 MB
_THREADS_NS = 1_000_000.0  # threads take some tenths of a millisecond
_ITERATIONS = 100  # a guess


def is_small(batch: int, n: int, m: int, threads: int) -> bool:
    """Whether the compiled loop is expected to take less time per iteration than the passes of torch.

    One core iterates on one problem here, while the passes spread a problem over `threads`.
    """
    entries = n * m
    if entries > LARGEST:
        return False
    return COMPILED_NS * entries * -(-batch // threads) <= TORCH_CALLS_NS + TORCH_NS * entries * batch / threads


def worth_threads(batch: int, entries: int) -> bool:
    """Whether a batch of problems of `entries` pairs each takes long enough to be spread over threads."""
    return batch * entries * COMPILED_NS * _ITERATIONS > _THREADS_NS


# A product of two points takes this long per dimension; a stored cost is read at the other figure. Distances are stored for a
# solve if that is faster, and if they take at most 256 MB.
_PRODUCT_NS, _READ_NS = 0.1, 0.6
_LARGEST_STORED = 1 << 25


def is_worth_storing(batch: int, n: int, m: int, dim: int) -> bool:
    """Whether the squared distances of points in `dim` dimensions are stored for a solve on tiles, instead of repeated."""
    return dim > 3 and dim * _PRODUCT_NS >= _READ_NS and batch * n * m <= _LARGEST_STORED
