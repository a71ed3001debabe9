"""The file index kinds: bloom, bitmap, BSI, range-bitmap; bytes, and the answers to predicates.

Import through `lakeidx.file_index.registry`, which names the kinds.
The container around them is `lakeidx.file_index.container`.
"""
