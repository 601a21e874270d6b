"""SHOW: frames, results and analyses come in, figures and pages go out.

Figures are pure functions ``(result, ax) -> ax``. It reads no masks and solves nothing, but for the
widget of napari, which calls `pairframe.compare`.
"""
