"""Options that are for images only: refused for volumes before anything is read, solved or written."""

from __future__ import annotations

from collections.abc import Sequence

from pairframe.cohort import PairTask
from pairframe.cohort.inputs.tasks import MaskRef, check_volume_settings, hold_volumes
from pairframe.errors import ArgumentError, InputError
from pairframe.masks.headers import has_depth
from pairframe.problem import TransportConfig

_PROJECT = "or compare projections, such as mask.max(axis=0)"
_INSTEAD = {
    "axis": f"leave it out: a body axis is found in images only; {_PROJECT}",
    "radial": f"leave it out: radial profiles are of images only; {_PROJECT}",
    "regions": "leave it out: flows between the labels of volumes are not computed yet; compare one label with FILE:ID, "
    f"{_PROJECT}",
    "region": "leave it out: flows between the structures of volumes are not computed yet; compare the structures themselves, "
    f"{_PROJECT}",
    "sweep": "leave it out, and compare at several reaches with --reach-um",
    "sweep_command": "run pairframe compare at several reaches with --reach-um",
}
_FOLLOW = (
    "objects are followed in images only; pairframe run compares each id of a series of volumes with itself, and projections, "
    "such as labels.max(axis=0), can be followed"
)


def refuse_for_volumes(tasks: Sequence[PairTask], config: TransportConfig, **given: object) -> None:
    """Raise an error if the masks are volumes and an option is `given`, or a setting of the config is for images only."""
    check_volume_settings(tasks, config)
    named = [name for name, value in given.items() if value]
    if named and hold_volumes(tasks, config):
        flag = named[0].replace("_", "-")
        where = "for pairframe sweep" if named[0] == "sweep_command" else f"with --{flag}"
        raise ArgumentError(f"images {where}", "volumes", _INSTEAD[named[0]], named[0])


def refuse_pair_of_volumes(source: str, target: str, config: TransportConfig, **given: object) -> None:
    """The same for one pair."""
    refuse_for_volumes([PairTask("pair", MaskRef(source, source), MaskRef(target, target))], config, **given)


def refuse_volumes_to_follow(stack: Sequence[str], config: TransportConfig) -> None:
    """Refuse volumes whose planes would be taken for frames; `--no-volume` says that they are."""
    if config.volume is False:
        return
    for name in stack:
        try:
            is_volume = config.volume or has_depth(name)
        except (InputError, OSError):  # reading it raises the error
            continue
        if is_volume:
            fix = f"{_FOLLOW}; if its pages are frames of a time series, use --no-volume"
            raise ArgumentError("label images", f"volumes in {name!r}", fix, "stack")
