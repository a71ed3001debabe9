"""What ``lakeidx inspect`` shows of HASH index, deletion vector and file index files."""

from __future__ import annotations

import itertools
from typing import Any

from pyroaring import BitMap

from lakeidx.codec.distinct import sorted_distinct
from lakeidx.file_index.container import FileIndexContainer
from lakeidx.format.deletion_vector import FILE_VERSION, MAGIC_32, MAGIC_64, scan_deletion_vectors
from lakeidx.format.file_names import checksum_in
from lakeidx.format.hash_index import check_checksum, decode_hash_index


def looks_like_deletion_vectors(head: bytes, size: int) -> bool:
    """Return True for a deletion vector file: the version byte alone, or followed by a vector's size and magic."""
    if head[:1] != bytes([FILE_VERSION]):
        return False
    return size == 1 or head[5:9] in (MAGIC_32, MAGIC_64)


def describe_deletion_vectors(data: bytes, path: str, limit: int) -> dict[str, Any]:
    """Show the vectors in file order; only the index manifest says which data file each belongs to."""
    vectors = scan_deletion_vectors(data, path)
    shown = []
    for v in vectors[:limit]:
        positions = list(itertools.islice(iter(v.positions), limit))
        shown.append(
            {
                "offset": v.offset,
                "length": v.length,
                "form": "32-bit" if isinstance(v.positions, BitMap) else "64-bit",
                "cardinality": len(v.positions),
                "positions": positions,
            }
        )
    return {"kind": "deletion vectors", "count": len(vectors), "vectors": shown}


def describe_hash_index(data: bytes, path: str, limit: int) -> dict[str, Any]:
    """Show the count and the hashes themselves, in file order; a checksum in the name is compared."""
    hashes = decode_hash_index(data, path)
    check_checksum(data, path)
    checksum = checksum_in(path.rpartition("/")[2])
    return {
        "kind": "hash index",
        "count": len(hashes),
        "distinct": len(sorted_distinct(hashes)),
        "checksum": None if checksum is None else f"{checksum:08x}",
        "hashes": hashes[:limit].tolist(),
    }


def describe_file_index(data: bytes, path: str) -> dict[str, Any]:
    """Show the directory of a file index container; every payload is read and, where it has a checksum, compared with it."""
    container = FileIndexContainer.from_bytes(data, path)
    indexes = []
    for entry in container.entries:
        if not entry.is_empty:
            container.payload(entry)
        checksum = None if entry.checksum is None else f"{entry.checksum:08x}"
        place = {"start": entry.start, "length": entry.length, "checksum": checksum}
        indexes.append({"column": entry.column, "type": entry.type, "empty": entry.is_empty, **place})
    return {"count": len(indexes), "indexes": indexes}
