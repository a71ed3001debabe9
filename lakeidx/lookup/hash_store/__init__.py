"""The hash lookup store: writer, reader and kernels of its files.

Import through `lakeidx.lookup.factory`.
Bytes of the file kind live in `lakeidx.format.lookup.hash_store`.
"""
