"""SUITE: time to a certified answer, memory and scaling, against the installed peers.

A plan with time limits comes in; a table of ratios, its JSON and its figures go out (`report.run_bench`). Every contestant
runs in its own process, which answers jobs (`jobs`) sent by the parent (`contestants`). `solvers` adapts each library, and
nothing else here knows how a library or an engine works.
"""
