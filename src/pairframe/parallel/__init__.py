"""Processes, threads and memory limits: tasks come in, results in order go out.

It owns how work is spread over the cores of one machine. It must not know what the work is.
"""
