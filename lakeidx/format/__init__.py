"""File kinds of the Paimon format, one module per kind: bytes <-> dataclasses, no I/O.

Import a kind's dataclass with its ``encode_*`` and ``decode_*`` functions, and `paths` and `file_names` for where files lie.
What several files mean together belongs to `lakeidx.table`; codecs that are no file of their own to `lakeidx.codec`.
"""
