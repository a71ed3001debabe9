"""Aggregate functions one value at a time: for types without a kernel, and as the reference of the kernels.

Import them from `lakeidx.data.engines` modules only.
Whole-column kernels live in `lakeidx.data.engines.functions`.
"""
