"""Key state: where every key of a table lives, as a table of its own beside the one it serves.

Import `index` for the index types ``state`` and ``inmemory``; the types are registered in `lakeidx.key_index.registry`.
"""
