"""SHOW: frames and results come in, pictures and pages go out.

Figures are pure functions ``(thing, ax) -> ax``. It reads no masks and solves nothing.
"""
