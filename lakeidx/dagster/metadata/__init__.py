"""Metadata of runs and assets: reports as typed entries, tables and plots.

Import the functions that turn a report into metadata entries.
Nothing here reads or writes tables.
"""
