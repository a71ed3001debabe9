"""Rows as bytes: BinaryRow and CompactedRow, one row at a time and whole columns, and `RowBytes`, a column of byte
strings.

Import the encoders and decoders.
Files that hold rows live in `lakeidx.format` and `lakeidx.lookup`.
"""
