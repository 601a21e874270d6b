"""Before numpy loads: one BLAS thread. The tests' many small solves only fight over the cores with more."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PAIRFRAME_JAX_CACHE", "off")  # nothing of a test run stays behind
