"""A cohort in one pose: masks of a table come in; the same masks in canonical pose, a manifest and their flags go out.

It repeats `align` for many masks in the worker processes of a run. It must not know how a pair is compared.
"""
