"""One tree of errors. Each says what was expected, what came, and how to fix it."""

from __future__ import annotations


class PairframeError(Exception):
    """Root of every error that pairframe raises on purpose.

    Parameters
    ----------
    expected, got, fix : str
        Three short clauses; they also stay readable as attributes. They are the
        only ``args``, so an error survives the trip between processes.
    """

    def __init__(self, expected: str, got: str, fix: str) -> None:
        super().__init__(expected, got, fix)
        self.expected = expected
        self.got = got
        self.fix = fix

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}. To fix: {self.fix}"


class InputError(PairframeError, ValueError):
    """What came in cannot be used. The CLI exits with code 2."""


# --- masks: arrays ---------------------------------------------------------------------------


class NotTwoDimensionalError(InputError):
    """A mask must be one 2-D image."""


class EmptyCanvasError(InputError):
    """The image has no pixels at all (a side of length 0)."""


class NotNumericError(InputError):
    """The array holds objects, strings or complex numbers."""


class NotFiniteError(InputError):
    """The array holds NaN or infinity."""


class NegativeMassError(InputError):
    """The array holds negative values."""


class GreyImageError(InputError):
    """A grey or label image came where a binary mask is needed."""


class PixelSizeError(InputError):
    """A pixel size that is not a positive, finite number of micrometres."""


class AnisotropicPixelsError(InputError):
    """Pixels that are not square."""


class MassModeError(InputError):
    """An unknown mass mode, or one with a wrong parameter."""


class CleaningError(InputError):
    """A cleaning step with a wrong parameter."""


# --- masks: files ----------------------------------------------------------------------------


class FileError(InputError):
    """A file that cannot be used."""


class FileMissingError(FileError):
    """No such file."""


class UnreadableFileError(FileError):
    """The file is there but broken, truncated or not what its name says."""


class UnsafeFileError(FileError):
    """The file asks for something pairframe never does, such as unpickling."""


class UnknownFormatError(FileError):
    """The extension is none that pairframe reads or writes."""


class ImageTooLargeError(FileError):
    """The header declares more pixels than allowed (a decompression bomb, or a mistake)."""


class MissingLabelError(FileError):
    """The label id is not in the image."""


class MissingPageError(FileError):
    """The page, frame, key or inner path is not in the file, or one must be chosen."""


# --- frame -----------------------------------------------------------------------------------


class FrameError(InputError):
    """A pair frame that cannot be built."""


class BoxError(FrameError):
    """A box that is no box: not integers, or without any pixel."""


class BothMasksEmptyError(FrameError):
    """Neither mask has any mass: there is nothing to compare."""


class CanvasMismatchError(FrameError):
    """The two masks do not lie on the same canvas."""


class DownsampleFactorError(FrameError):
    """A downsample factor that is not an integer >= 1."""


class PadError(FrameError):
    """A pad that is not an integer >= 0."""


class CropPolicyError(FrameError):
    """An unknown crop policy or bucket mode, or an argument that the policy does not use."""


class MissingBoxError(FrameError):
    """``crop_policy="fixed"`` without a box."""


class BoxOutsideCanvasError(FrameError):
    """A box that does not touch the canvas."""


class ClippedMassError(FrameError):
    """A fixed box that would cut mass away."""


class MissingBucketsError(FrameError):
    """``crop_policy="bucketed"`` without usable bucket shapes."""


class NoBucketFitsError(FrameError):
    """No bucket is large enough."""


class TransformError(FrameError):
    """A GridTransform whose fields contradict each other, or an array that does not fit it."""


class GoldenTestError(PairframeError, AssertionError):
    """A golden test of the pair frame failed at run time: a bug in pairframe, not in the input."""


# --- maps and results ---


class PlanError(InputError):
    """Potentials, scales or channels that do not fit the plan they are for."""


class PlanTooLargeError(PlanError):
    """A dense plan with more entries than pairframe writes out."""


class WarmStartError(InputError):
    """A previous result that cannot be started from."""


class RaiseOnError(InputError):
    """``raise_on`` names something that is no status."""


class PairsError(InputError):
    """The pairs, or the number of jobs, of a `compare_many` that cannot be used."""


class SolveFailedError(PairframeError, RuntimeError):
    """A solve ended with a status that the caller asked to be an error."""


class WorkerDiedError(PairframeError, RuntimeError):
    """A worker process ended before its work did."""


# --- output ----------------------------------------------------------------------------------


class OutputError(InputError):
    """A place that cannot be written to."""


# --- problem ---------------------------------------------------------------------------------


class ProblemError(InputError):
    """A transport problem that cannot be stated."""


class PenaltyError(ProblemError):
    """An unknown marginal penalty, or one with a wrong strength."""


class ReferenceNameError(ProblemError):
    """An unknown reference measure."""


class MetricError(ProblemError):
    """An unknown metric."""


class EpsilonError(ProblemError):
    """An epsilon that is not positive and finite."""


class EmptyMeasureError(ProblemError):
    """A measure without any mass: there is nothing to transport."""


class UnequalMassesError(ProblemError):
    """Hard marginals that no plan can have, because the totals differ."""


class ScalesError(ProblemError):
    """A length, cost or solver parameter that cannot be converted."""


class ConfigError(InputError):
    """A `TransportConfig` (or its file) that cannot be used."""


class ConflictingUnitsError(ConfigError):
    """The same quantity was given in two units."""


class ConfigValueError(ConfigError):
    """A field of the config has a value it cannot have."""


class UnknownFieldError(ConfigError):
    """A config file names a field that does not exist."""


# --- engines ---------------------------------------------------------------------------------


class EngineError(InputError):
    """An engine that cannot be used."""


class UnknownEngineError(EngineError):
    """No engine has that name."""


class BrokenEngineError(EngineError):
    """An engine is registered, but it cannot be loaded."""


class MissingExtraError(EngineError):
    """An optional library is not installed."""


class UnsupportedProblemError(EngineError):
    """The engine cannot solve this problem, and says why."""


class SolveOptionsError(EngineError):
    """Options of a solve that cannot be used."""


class StartError(EngineError):
    """Starting potentials that do not fit the problem."""


# --- results ---------------------------------------------------------------------------------


class StoreError(InputError):
    """A folder of results that cannot be used."""


class StoreMissingError(StoreError):
    """There are no results at that place."""


class UnknownPairError(StoreError):
    """The store has no pair of that name, no result for it, or one must be chosen."""


class PairExistsError(StoreError):
    """The store has that pair already."""


class ForeignFolderError(StoreError):
    """The folder holds something else."""


class StoreVersionError(StoreError):
    """The store was written by another version of the schema."""


class BrokenStoreError(StoreError):
    """A part of the store is damaged or missing."""


class StoreLockedError(StoreError):
    """Somebody else is writing to the store."""


class StoreRowError(StoreError):
    """A row that has no place in the table."""


class StoreWriteError(StoreError, OutputError):
    """The store cannot be written: no space, no permission."""


# --- cohort ----------------------------------------------------------------------------------


class CohortError(InputError):
    """A cohort that cannot be run as it was asked for."""


class ManifestError(CohortError):
    """A list of masks that cannot be read, or does not say what to compare."""


class PairIdError(ManifestError):
    """Names of pairs that are missing, unsafe or not unique."""


class PairingError(CohortError):
    """A pairing rule that does not exist, or finds no pair."""


class ClusterError(PairframeError, RuntimeError):
    """The workers of a cluster cannot be reached, or cannot do the work. What was done is kept."""
