"""A walk through a large directory, by several prefixes of names at once; still about one request for a thousand names."""

from __future__ import annotations

from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.tasks.in_parallel import REQUESTS, in_parallel


def parallel_walk(store: ObjectStore, root: str, *, enough: int = 0) -> list[FileInfo]:
    """List all files below, at any depth; order not defined.

    enough   directories right below for which one walk will do, where each is known to hold few files
    cost     the requests of one walk, those of a listing of what is directly below, and one for each prefix
    """
    here = store.list(root)
    names = [f"{entry.name}/" for entry in here if entry.is_dir]
    if 0 < len(names) <= enough:
        return list(store.walk(root))
    prefixes = _prefixes(names)
    # Not by ranges of names: some stores do not list them in their order.
    found = in_parallel(lambda prefix: list(store.walk(root, prefix=prefix)), prefixes)
    start = len(root.rstrip("/")) + 1
    files = [entry for entry in here if not entry.is_dir]
    # A file right here may begin like a directory.
    return files + [file for below in found for file in below if "/" in file.path[start:]]


def _prefixes(names: list[str]) -> list[str]:
    """Return prefixes of which each name has one, none a prefix of another: up to about `REQUESTS`, with like many names each."""
    groups = [names] if names else []
    while len(groups) < REQUESTS:
        groups.sort(key=len)
        if not groups or len(groups[-1]) == 1:
            break
        largest = groups.pop()
        at = len(_common(largest))
        parts: dict[str, list[str]] = {}
        for name in largest:
            parts.setdefault(name[: at + 1], []).append(name)
        groups += parts.values()
    return [_common(group) for group in groups]


def _common(names: list[str]) -> str:
    """Return what all names begin with."""
    low, high = min(names), max(names)
    same = 0
    while same < min(len(low), len(high)) and low[same] == high[same]:
        same += 1
    return low[:same]
