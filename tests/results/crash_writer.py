"""A program that forks writers, so that a test can kill or starve them. Started by path; speaks in lines.

``MODE FOLDER NUMBER`` comes in on standard input; the writer's process id goes out, and at its end what happened:
``save``: save two results over each other for ever. ``limit``: save one with files of at most NUMBER bytes.
``nobody``: save one without the rights of the owner.
"""

from __future__ import annotations

import os
import resource
import sys

import numpy as np
import pyarrow.parquet  # noqa: F401
import zarr.codecs
import zarr.storage  # noqa: F401  (loaded before the forks)

import pairframe as pf
from pairframe.results import table  # noqa: F401
from pairframe.testing import disc

SHAPE = (30, 40)
RESULTS = [pf.compare(np.zeros(SHAPE, bool), disc(SHAPE, (15, 12), radius)) for radius in (5, 8)]


def write(mode: str, out: str, number: int) -> str:
    if mode == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
    if mode == "nobody":
        os.seteuid(65534)
    try:
        while True:
            for result in RESULTS[::-1]:
                result.save(out, overwrite=True)
                if mode != "save":
                    return "saved"
    except pf.PairframeError as error:
        return f"{type(error).__name__}: {error}"


for line in sys.stdin:
    mode, out, number = line.split()
    pid = os.fork()
    if pid == 0:
        print(os.getpid(), flush=True)
        if mode != "save":
            print(write(mode, out, int(number)), flush=True)
        else:
            write(mode, out, 0)
        os._exit(0)
    os.waitpid(pid, 0)
    print("ended", flush=True)
