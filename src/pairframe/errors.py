"""One tree of errors. Each says what was expected, what it got, and how to fix it."""

from __future__ import annotations

from typing import ClassVar


class PairframeError(Exception):
    """Root of every error that pairframe raises on purpose.

    Parameters
    ----------
    expected, got, fix : str
        Three short clauses, also readable as attributes.
    field : str, optional
        The argument, config field or column at fault, e.g. ``"blur_um"``; empty if there is no single one.

    Attributes
    ----------
    transient : bool
        Whether the same input may succeed later, after a full disk, a missing library or a dead worker. Errors of the input
        itself are not transient.

    Notes
    -----
    All four are ``args``, so an error survives the trip between processes.
    """

    transient: ClassVar[bool] = True

    def __init__(self, expected: str, got: str, fix: str, field: str = "") -> None:
        super().__init__(expected, got, fix, field)
        self.expected = expected
        self.got = got
        self.fix = fix
        self.field = field

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}. To fix: {self.fix}"


class InputError(PairframeError, ValueError):
    """Input that cannot be used. The CLI exits with code 2."""

    transient = False


class ArgumentError(InputError):
    """An argument with a value that it cannot have."""


class ConfigError(InputError):
    """A `TransportConfig`, or its file, that cannot be used."""


# --- masks and frame -------------------------------------------------------------------------


class MaskError(InputError):
    """An array that is not a mask: wrong shape or type, NaN, negative values, unusable pixels."""


class GreyImageError(MaskError):
    """A grey or label image where a binary mask is needed."""


class PixelSizeError(MaskError):
    """A pixel size that is not a positive, finite number of micrometres."""


class FileError(InputError):
    """A file that is missing, broken, unsafe, too large, or does not hold what was asked of it."""


class FrameError(InputError):
    """A pair frame that cannot be built, or an array that does not fit it."""


class AlignError(InputError):
    """Masks that cannot be aligned, or a pose that cannot be applied."""


class AxisError(InputError):
    """A mask without a body axis, or a profile that cannot be computed."""


class GoldenTestError(PairframeError, AssertionError):
    """A golden test of the pair frame failed at run time: a bug in pairframe, not in the input."""


# --- problem and engines ---------------------------------------------------------------------


class ProblemError(InputError):
    """A transport problem that cannot be stated, or potentials that do not fit it."""


class StartError(InputError):
    """A start (potentials or a previous result) that does not fit the problem."""


class EngineError(InputError):
    """An engine that does not exist or cannot be loaded."""

    transient = True


class MissingExtraError(EngineError):
    """An optional library is not installed."""


class UnsupportedProblemError(EngineError):
    """The engine cannot solve this problem; the message says why."""

    transient = False


class SolveFailedError(PairframeError, RuntimeError):
    """A solve ended with a status listed in ``raise_on``."""


class WorkerError(PairframeError, RuntimeError):
    """A worker process died, or a cluster cannot be reached. Finished pairs are kept."""


# --- results ---------------------------------------------------------------------------------


class OutputError(InputError):
    """A place that cannot be written to."""


class StoreError(InputError):
    """A folder of results that is missing, holds something else, or lacks the pair."""

    transient = True


class StoreVersionError(StoreError):
    """The store was written by another version of the schema."""


class BrokenStoreError(StoreError):
    """A part of the store is damaged or missing."""


class StoreLockedError(StoreError):
    """Another process is writing to the store."""


class StoreRowError(StoreError):
    """A row that does not fit the table."""


class StoreWriteError(StoreError, OutputError):
    """The store cannot be written: no space, no permission."""


# --- cohorts ---------------------------------------------------------------------------------


class CohortError(InputError):
    """A cohort that cannot be run or analysed as requested."""


class ManifestError(CohortError):
    """A list of masks that cannot be read, or does not say what to compare."""


def is_transient(error: BaseException) -> bool:
    """Whether the same call with the same input may succeed later; true of errors that are not ours."""
    return error.transient if isinstance(error, PairframeError) else True
