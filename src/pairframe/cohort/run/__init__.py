"""The run of a cohort: pair tasks come in, a folder of results goes out.

It uses local processes or a Dask cluster, and can be resumed at any moment. It must not know where tasks come from.
"""
