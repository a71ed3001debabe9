"""Order and rank of encoded lookup keys.

Import `KeyOrder` and the rank kernels.
Java's order of values lives in `lakeidx.codec.order`.
"""
