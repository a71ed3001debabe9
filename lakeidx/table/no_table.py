"""The error for a directory that is no table, with tables beside it that have a similar name."""

from __future__ import annotations

import difflib

from lakeidx.errors import LakeIdxError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.storage.base import ObjectStore


def no_table(store: ObjectStore, paths: TablePaths) -> NotFoundError:
    """Return the error for a directory without schemas, with the most similar names of directories beside it."""
    folder, _, name = paths.root.rstrip("/").rpartition("/")
    try:
        beside = [f.name for f in store.list(folder) if f.is_dir and not f.name.startswith("_")] if folder else []
    except LakeIdxError:
        # Whoever may read the table need not be allowed to list its neighbours; the error is the same without them.
        beside = []
    near = difflib.get_close_matches(name, beside, n=3)
    hint = f"did you mean {' or '.join(repr(n) for n in near)}? Else " if near else ""
    text = f"not a Paimon table: it has no schema/schema-0; {hint}create it with `lakeidx table create`"
    return NotFoundError(text, path=paths.root)
