"""Hash functions of Paimon and the 64-bit bloom filter, scalar and over columns.

Import the functions; each names the class whose results it reproduces.
Hudi's hashes live in `lakeidx.codec.hudi`.
"""
