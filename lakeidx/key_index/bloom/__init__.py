"""The bloom index: filters in data files, candidate files by key range, checks of the candidates.

Import the index through `lakeidx.key_index.registry`.
File indexes of Paimon live in `lakeidx.file_index`.
"""
