"""Roaring bitmaps: checked decoding, and bitmaps of many values at once.

Import the encoders and decoders; they work on bytes and NumPy arrays.
File kinds that hold bitmaps live in `lakeidx.file_index.kinds` and `lakeidx.format`.
"""
