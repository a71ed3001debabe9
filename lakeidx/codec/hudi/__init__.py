"""Hash functions and bloom filters as Hudi computes them.

Import the functions; each names the class whose results it reproduces.
Files of Hudi tables are read in `lakeidx.format.hudi` and `lakeidx.key_index.hudi_table`.
"""
