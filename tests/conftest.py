"""Before numpy loads: one BLAS thread. The tests' many small solves only fight over the cores with more."""

import os
from contextlib import suppress

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PAIRFRAME_JAX_CACHE", "off")  # nothing of a test run stays behind

with suppress(ImportError):  # tests of other versions of the dependencies run without it
    from hypothesis import settings

    settings.register_profile("pairframe", deadline=None)  # a busy machine must not fail a test
    settings.load_profile("pairframe")
