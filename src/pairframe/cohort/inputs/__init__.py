"""Inputs of a cohort: manifests, tables and folders come in, pair tasks go out.

It reads no pixels. It must not know how a pair is compared.
"""
