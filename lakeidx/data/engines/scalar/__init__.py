"""Aggregate functions one value at a time: those without a kernel.

Import them from `lakeidx.data.engines` modules only.
Whole-column kernels live in `lakeidx.data.engines.functions`.
"""
