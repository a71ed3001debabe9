"""The index types of the file index family, by name.

A type is an entry point of the group ``lakeidx.file_indexes`` whose name is the type's name and whose value is a `FileIndexer`
object (or a class to call without arguments), and is imported when it is first requested. Those of this package are in
`_BUILT_IN`; a type from elsewhere may also be registered by a call.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from lakeidx.errors import InvalidInputError, did_you_mean
from lakeidx.file_index.kinds.types import FileIndexer

_ENTRY_POINT_GROUP = "lakeidx.file_indexes"

_BUILT_IN = {
    name: EntryPoint(name, f"lakeidx.file_index.kinds.{place}", _ENTRY_POINT_GROUP)
    for name, place in (
        ("bloom-filter", "bloom:BloomFilterIndexer"),
        ("bitmap", "bitmap:BitmapIndexer"),
        ("bsi", "bsi:BsiIndexer"),
        ("range-bitmap", "range_bitmap:RangeBitmapIndexer"),
    )
}
_by_name: dict[str, FileIndexer] = {}


def register_file_index(indexer: FileIndexer) -> None:
    """Make a type known in this process.

    errors   InvalidInputError when another type has the name
    """
    known = find_file_index(indexer.name) if indexer.name in _BUILT_IN else _by_name.get(indexer.name)
    if known is not None and known is not indexer:
        raise InvalidInputError(f"file index type {indexer.name!r} is already registered")
    _by_name[indexer.name] = indexer


def find_file_index(name: str) -> FileIndexer | None:
    """Find the type of a name, from this package, `register_file_index` or an installed package; None when there is none.

    errors   InvalidInputError when an installed package has the type but it cannot be loaded
    """
    if name not in _by_name:
        found = [_BUILT_IN[name]] if name in _BUILT_IN else entry_points(group=_ENTRY_POINT_GROUP, name=name)
        for entry in found:
            try:
                loaded = entry.load()
                _by_name[name] = loaded() if isinstance(loaded, type) else loaded
            except (ImportError, AttributeError, SyntaxError, TypeError, ValueError) as e:
                raise InvalidInputError(f"file index type {name!r} cannot be loaded from {entry.value}: {e}") from e
    return _by_name.get(name)


def file_index_of(name: str) -> FileIndexer:
    """Find the type of a name; InvalidInputError that lists the types when there is none."""
    found = find_file_index(name)
    if found is None:
        hint = did_you_mean(name, file_index_names(), listing="known are")
        raise InvalidInputError(f"unknown file index type {name!r}; {hint}")
    return found


def file_index_names() -> tuple[str, ...]:
    """Return all type names, those of installed packages included, sorted."""
    return tuple(sorted({*_BUILT_IN, *_by_name, *(entry.name for entry in entry_points(group=_ENTRY_POINT_GROUP))}))
