"""A walk through a large directory, through several directories at once."""

from __future__ import annotations

from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.tasks.in_parallel import in_parallel


def parallel_walk(store: ObjectStore, root: str, *, enough: int = 0) -> list[FileInfo]:
    """List all files below, at any depth; order not defined.

    enough   directories right below for which one walk will do, where each is known to hold few files
    cost     the requests of a listing of what is directly below, and of a walk through each directory in it
    """
    here = store.list(root)
    directories = [entry.path for entry in here if entry.is_dir]
    if 0 < len(directories) <= enough:
        return list(store.walk(root))
    # Not by ranges of names: some stores do not list them in their order.
    below = in_parallel(lambda directory: list(store.walk(directory)), directories)
    return [entry for entry in here if not entry.is_dir] + [file for found in below for file in found]
