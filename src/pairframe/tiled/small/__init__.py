"""Problems that fit in a cache, solved by compiled code on the CPU: no torch call per iteration, a batch across cores.

In: stored costs, log masses and penalties of small problems. Out: what the loop of `pairframe.tiled.loop` gives, to rounding.
It knows nothing of Triton, and leaves every unusual input to the general path.
"""
