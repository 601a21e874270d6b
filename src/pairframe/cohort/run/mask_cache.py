"""Masks of the previous pair, kept in memory: in a series, the target of one pair is the source of the next."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from pairframe.cohort.inputs.content import MISSING, Digests, side_content, work_key
from pairframe.cohort.inputs.tasks import MaskRef, PairTask
from pairframe.masks import Mask
from pairframe.problem import TransportConfig


class MaskCache:
    """Reads the masks of pairs and hashes their files, for one worker process.

    It holds the masks of one pair, which bounds its memory, and the digests of all files it has read. Threads may share it.
    """

    def __init__(self) -> None:
        self._digests = Digests()
        self._masks: Mapping[Hashable, Mask] = {}  # replaced as a whole, so that no thread sees half of a change

    def work_key(self, task: PairTask, config: TransportConfig) -> str | None:
        """The key of a comparison; see `work_key`."""
        return work_key(task, config, self._digests)

    def read(self, task: PairTask, config: TransportConfig) -> tuple[Mask, Mask]:
        """Source and target of a pair; a mask of the previous pair is not read again unless its file has changed."""
        is_density = config.mass.takes_density
        refs = (task.source, task.target)
        kind = (is_density, config.volume, config.px_size_um if config.volume else None)
        keys = [self._key(ref, kind) for ref in refs]
        previous = self._masks
        masks = [
            previous[key] if key in previous else ref.read(density=is_density, config=config)
            for key, ref in zip(keys, refs, strict=True)
        ]
        # A file that changed while it was read is not kept: its content may be of neither version.
        self._masks = {
            key: mask
            for key, mask, ref in zip(keys, masks, refs, strict=True)
            if key is not None and key == self._key(ref, kind)
        }
        return masks[0], masks[1]

    def _key(self, ref: MaskRef, kind: Hashable) -> Hashable:
        """Identify a mask by content, because a file may change between two pairs; None if it cannot be read now."""
        try:
            content = side_content(ref, self._digests)
        except OSError:
            return None
        return None if content[0] == MISSING else (content, kind)
