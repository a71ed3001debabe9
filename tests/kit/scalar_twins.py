"""Plain forms of what kernels and whole-column code of the product do: one key, one row, one file at a time, written out from the
sources that they name. Tests compare the two, and both with recorded answers of the Java classes.

source   of the hashes org.apache.hudi.common.bloom.HashFunction, org.apache.hadoop.util.hash.{MurmurHash,JenkinsHash},
         org.apache.hudi.common.util.NumericUtils and hash.HashID of Hudi 1.0.2
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
from lakeidx.codec.hudi.bloom import MURMUR
from lakeidx.codec.hudi.hashes import java_string_hash, signed32
from lakeidx.codec.rows.compacted_row_read import decode_compacted
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.json_write import format_json
from lakeidx.format.lookup.hash_store import PAGE_HEADER_SIZE
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.statistics import TableStatistics
from lakeidx.key_index.bucket.consistent_hashing import RING, HashingMetadata
from lakeidx.key_index.bucket.ids import EMPTY_VALUE, NULL_VALUE
from lakeidx.types import DataType, Root

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_JENKINS_START = 0xDEADBEEF


def wang_mix(value: int) -> int:
    """Return Wang's mix of a signed 64-bit integer, as one."""
    mask = (1 << 64) - 1

    def signed(x: int) -> int:
        return (x & mask) - ((x & mask) >> 63 << 64)

    x = (~value + (value << 21)) & mask
    x ^= signed(x) >> 24 & mask
    x = (x + (x << 3) + (x << 8)) & mask
    x ^= signed(x) >> 14 & mask
    x = (x + (x << 2) + (x << 4)) & mask
    x ^= signed(x) >> 28 & mask
    return signed(x + (x << 31) & mask)


def bloom64_positions(hashed: int, bits: int, functions: int) -> list[int]:
    """Return the bits of a Bloom filter that a 64-bit hash sets, one for each function."""
    low, high = hashed & _MASK, hashed >> 32 & _MASK
    positions = []
    for j in range(1, functions + 1):
        c = (low + j * high) & _MASK
        positions.append((~c & _MASK if c >> 31 else c) % bits)
    return positions


def murmur_hash(data: bytes, seed: int) -> int:
    """Return Hadoop's MurmurHash: signed 32 bits.

    errors   InvalidInputError for an empty key, which Hudi refuses, too
    """
    n = len(data)
    if n == 0:
        raise InvalidInputError("a bloom filter cannot contain an empty key")
    h = (seed ^ n) & _MASK
    for at in range(0, n - n % 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    tail = n % 4
    if tail:
        for i in range(1, tail + 1):
            byte = data[n - i]
            signed = byte if byte < 0x80 else byte | 0xFFFFFF00
            h ^= signed << 8 * (i - 1) & _MASK
        h = h * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return signed32(h ^ h >> 15)


def jenkins_hash(data: bytes, seed: int) -> int:
    """Return Jenkins' lookup3 (hashlittle) of a key: signed 32 bits. Only filters with the old header use it.

    errors   InvalidInputError for an empty key
    """
    n = len(data)
    if n == 0:
        raise InvalidInputError("a bloom filter cannot contain an empty key")
    a = b = c = (_JENKINS_START + n + seed) & _MASK
    at = 0
    while n - at > 12:
        a, b, c = (v + w & _MASK for v, w in zip((a, b, c), _three_words(data[at : at + 12]), strict=True))
        a, b, c = _jenkins_mix(a, b, c)
        at += 12
    a, b, c = (v + w & _MASK for v, w in zip((a, b, c), _three_words(data[at:]), strict=True))
    return signed32(_jenkins_finish(a, b, c))


def bloom_positions(data: bytes, *, rounds: int, bits: int, hash_type: int = MURMUR) -> list[int]:
    """Return the bit positions of one key, in round order (repeats possible).

    rounds   number of hash rounds k, > 0
    bits     size of the filter's bit vector, > 0
    """
    function = murmur_hash if hash_type == MURMUR else jenkins_hash
    h, out = 0, []
    for _ in range(rounds):
        h = function(data, h)
        out.append(abs(h) % bits)
    return out


def _three_words(data: bytes) -> tuple[int, int, int]:
    padded = data.ljust(12, b"\0")
    return tuple(int.from_bytes(padded[i : i + 4], "little") for i in (0, 4, 8))  # type: ignore[return-value]


def _rotate(x: int, k: int) -> int:
    return (x << k | x >> 32 - k) & _MASK


def _jenkins_mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for k in (4, 6, 8, 16, 19, 4):
        # Each of the six steps is the same with the names turned: (a, b, c) -> (b, c, a).
        a = (a - c & _MASK) ^ _rotate(c, k)
        c = c + b & _MASK
        a, b, c = b, c, a
    return a, b, c


def _jenkins_finish(a: int, b: int, c: int) -> int:
    for k in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotate(b, k) & _MASK
        a, b, c = b, c, a
    # Seven turns of three names end one step past the last value written.
    return b


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
