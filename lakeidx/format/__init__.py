"""File kinds of the Paimon format, one module per kind: bytes <-> dataclasses, no I/O."""
