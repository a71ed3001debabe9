"""Sorting the rows of a batch and merging sorted runs into one stream.

Import `sort_…` and `merge_…`.
What becomes of rows of one key is decided by `lakeidx.data.engines`.
"""
