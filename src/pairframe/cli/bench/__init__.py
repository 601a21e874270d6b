"""BENCH: how long to a certified answer, against whatever peers are installed; how much memory; how it scales.

A time limit comes in, a table of ratios, its JSON and its figures go out (`command.run_bench`). It knows no engine from the
inside. Every contestant lives in a process of its own (`serve`), which is asked from outside (`contestants`).
"""
