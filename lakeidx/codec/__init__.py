"""Bytes <-> values: rows, keys, hashes, bitmaps, containers, and the Numba kernels under them.

Import the functions of a module; they take and give bytes, NumPy arrays or Arrow columns and know no table. Every kernel has a
scalar twin that tests compare it with, most of them in `tests/kit`.
Whole file kinds belong to `lakeidx.format`, file indexes to `lakeidx.file_index`.
"""
