"""Plain forms of what kernels and whole-column code of the product do: one key, one row, one file at a time, written out from the
sources that they name. Tests compare the two, and both with recorded answers of the Java classes.

source   of the hashes org.apache.hudi.common.util.NumericUtils and hash.HashID of Hudi 1.0.2
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from lakeidx.codec.cursor import Cursor
from lakeidx.codec.hudi.hashes import java_string_hash, signed32
from lakeidx.codec.rows.compacted_row_read import decode_compacted
from lakeidx.errors import CorruptFileError
from lakeidx.format.json_write import format_json
from lakeidx.format.lookup.hash_store import PAGE_HEADER_SIZE
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.statistics import TableStatistics
from lakeidx.key_index.bucket.consistent_hashing import RING, HashingMetadata
from lakeidx.key_index.bucket.ids import EMPTY_VALUE, NULL_VALUE
from lakeidx.types import DataType, Root


def xxh32(text: str) -> int:
    """Return XXH32 with seed 0: signed 32 bits."""
    return signed32(xxhash.xxh32_intdigest(text.encode("utf-8"), seed=0))


def java_order_key(text: str) -> bytes:
    """Return a sort key for one string in Java's order."""
    return text.encode("utf-16-be", "surrogatepass")


def compare_compacted(a: bytes, b: bytes, types: Sequence[DataType]) -> int:
    """Order of two compacted keys: negative, 0 or positive; field by field, null first (rules in ``compare``).

    errors   CorruptFileError when one is not such a row; InvalidInputError for types without order
    """
    return compare_rows(decode_compacted(a, types), decode_compacted(b, types), types)


def walk_pages(data: bytes | memoryview, *, path: str | None = None) -> npt.NDArray[np.int64]:
    """Return the stored bytes of each page of a compressed data file, found by following the payload sizes.

    errors   CorruptFileError when they do not end at the end of the file
    """
    cursor = Cursor(data, path)
    sizes = []
    while cursor.remaining:
        sizes.append(PAGE_HEADER_SIZE + cursor.i32be())
        cursor.skip(sizes[-1] - PAGE_HEADER_SIZE)
    return np.array(sizes, np.int64)


def page_checksums(data: bytes, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return the CRC-32 of each page of a data file."""
    ends = np.cumsum(sizes).tolist()
    return np.array([zlib.crc32(data[a:b]) for a, b in itertools.pairwise([0, *ends])], np.uint32)


def plain_page_sizes(image_size: int, page_size: int) -> npt.NDArray[np.int64]:
    """Return the bytes of each page of an image that is not compressed."""
    bounds = [*range(0, image_size, page_size), image_size] if image_size else [0]
    return np.array([b - a for a, b in itertools.pairwise(bounds)], np.int64)


def extract_values(record_key: str, fields: Sequence[str]) -> list[str | None]:
    """Cut the index values of a record key, in the key's order (not that of `fields`), as Hudi 1.0 and later cuts them.

    fields   wanted field names; none, or one empty name, means all
    returns  the whole key as the only value when it is not composite or no wanted field is in it
    """
    if "," not in record_key or ":" not in record_key:
        return [record_key]
    every = _every(fields)
    out: list[str | None] = []
    at = 0
    while at < len(record_key):
        colon = record_key.find(":", at)
        if colon < 0:
            break
        name = record_key[at:colon]
        following = record_key.find(":", colon + 1)
        comma = -1
        # A ':' inside the value (a time, say) has no ',' between it and this field's own ':'; look further then.
        while following >= 0:
            comma = record_key.rfind(",", 0, following + 1)
            if comma > colon:
                break
            comma = -1
            following = record_key.find(":", following + 1)
        end = comma if comma >= 0 else len(record_key)
        if every or name in fields:
            value = record_key[colon + 1 : end]
            out.append(None if value == NULL_VALUE else "" if value == EMPTY_VALUE else value)
        at = end + 1
    return out or [record_key]


def _every(fields: Sequence[str]) -> bool:
    return not fields or list(fields) == [""]


def list_hash(values: Sequence[str | None]) -> int:
    """Return ``List.hashCode`` of the values: signed 32 bits."""
    h = 1
    for value in values:
        h = (31 * h + (0 if value is None else java_string_hash(value))) & 0xFFFFFFFF
    return signed32(h)


def bucket_of(record_key: str, fields: Sequence[str], num_buckets: int) -> int:
    """Compute the bucket of one key."""
    return (list_hash(extract_values(record_key, fields)) & 0x7FFFFFFF) % num_buckets


def ring_place(record_key: str, fields: Sequence[str]) -> int:
    """Compute a key's place on the ring."""
    return xxh32("".join("null" if v is None else v for v in extract_values(record_key, fields))) & RING


def node_of(metadata: HashingMetadata, place: int) -> int:
    """Return the position in `metadata.nodes` of the bucket of a place."""
    return next((i for i, node in enumerate(metadata.nodes) if node.value >= place), 0)


def encode_statistics(stats: TableStatistics) -> bytes:
    """Encode the file."""
    pairs = {
        "snapshotId": stats.snapshot_id,
        "schemaId": stats.schema_id,
        "mergedRecordCount": stats.merged_record_count,
        "mergedRecordSize": stats.merged_record_size,
        "colStats": stats.columns,
    }
    return format_json({key: value for key, value in pairs.items() if value is not None})


def compare_values(a: Any, b: Any, t: DataType) -> int:
    """Order of two internal values of a type: negative, 0 or positive."""
    if a is None or b is None:
        return (a is not None) - (b is not None)
    if t.root in (Root.FLOAT, Root.DOUBLE):
        a, b = _float_key(a), _float_key(b)
    return int(a > b) - int(a < b)


def compare_rows(a: Sequence[Any], b: Sequence[Any], types: Sequence[DataType]) -> int:
    """Order of two keys, field by field."""
    for x, y, t in zip(a, b, types, strict=True):
        order = compare_values(x, y, t)
        if order:
            return order
    return 0


def _float_key(value: float) -> tuple[bool, float, bool]:
    """Return a sort key with NaN last and -0.0 before 0.0."""
    if math.isnan(value):
        return True, 0.0, False
    return False, value, math.copysign(1.0, value) > 0


def fold_entries(entries: Iterable[ManifestEntry], *, where: str) -> list[ManifestEntry]:
    """Merge ADD and DELETE entries, in list order, into the live ADD entries, as `lakeidx.table.entries.live_files` does.

    where    what the error message names (the snapshot's manifest list)
    errors   CorruptFileError for a file added twice
    """
    live: dict[object, ManifestEntry] = {}
    # A DELETE may stand before its ADD when manifests were merged out of order, so unmatched ones are remembered.
    waiting: set[object] = set()
    for entry in entries:
        identifier = entry.identifier
        if entry.kind is FileKind.ADD:
            if identifier in waiting:
                waiting.discard(identifier)
                continue
            if identifier in live:
                raise CorruptFileError(f"data file {entry.file.file_name} is added twice", path=where)
            live[identifier] = entry
        elif live.pop(identifier, None) is None:
            waiting.add(identifier)
    return list(live.values())
