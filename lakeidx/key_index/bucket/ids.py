"""Hudi's simple bucket index: from a record key to a bucket number, and bucket numbers inside file ids.

1.  The index fields' values are cut out of the record key text (``a:1,b:2`` or a bare value) by position.
2.  H = 1; for each value H = 31 * H + java string hash (null counts 0), 32 bits.
3.  bucket = (H & 0x7FFFFFFF) mod number of buckets.

source   org.apache.hudi.index.bucket.BucketIdentifier, org.apache.hudi.keygen.KeyGenUtils, release 1.0.2;
         golden/hudi/bucket.json
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.hudi.hashes import java_hash_span
from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError

NULL_VALUE, EMPTY_VALUE = "__null__", "__empty__"
_FIXED_SUFFIX = "-0000-0000-0000-000000000000"
_BUCKET_DIGITS = 8
# Kinds of a cut-out value, for kernels.
_TEXT, _NULL, _EMPTY = 0, 1, 2


def bucket_ids(record_keys: RowBytes, fields: Sequence[str], num_buckets: int) -> npt.NDArray[np.int32]:
    """Compute the bucket of each key.

    record_keys  n record keys in UTF-8
    fields       index fields, see `extract_values`
    num_buckets  > 0; must never change for a partition that has data
    returns      int32[n], 0..num_buckets-1
    """
    if num_buckets < 1:
        raise InvalidInputError(f"the number of buckets must be at least 1, not {num_buckets}")
    out = np.empty(len(record_keys), np.int32)
    names, every = _names(fields)
    data, offsets = frozen(record_keys.data), frozen(record_keys.offsets)
    _list_hashes(data, offsets, names.data, names.offsets, every, out)
    return (out & np.int32(0x7FFFFFFF)) % np.int32(num_buckets)


def joined_values(record_keys: RowBytes, fields: Sequence[str]) -> RowBytes:
    """Join the index values of each key with nothing between; a null reads ``null``.

    This is what consistent hashing hashes.
    """
    offsets = np.zeros(len(record_keys) + 1, np.int64)
    names, every = _names(fields)
    data = np.zeros(0, np.uint8)
    # The first pass finds the offsets, the second fills the bytes.
    for write in (False, True):
        _join(
            frozen(record_keys.data),
            frozen(record_keys.offsets),
            names.data,
            names.offsets,
            every,
            offsets,
            data,
            write,
        )
        data = np.empty(int(offsets[-1]), np.uint8) if not write else data
    return RowBytes(data, offsets)


def _every(fields: Sequence[str]) -> bool:
    return not fields or list(fields) == [""]


def _names(fields: Sequence[str]) -> tuple[RowBytes, bool]:
    names = RowBytes.from_list([f.encode("utf-8") for f in fields])
    return RowBytes(frozen(names.data), frozen(names.offsets)), _every(fields)


def bucket_text(bucket: int) -> str:
    """Format a bucket number as file ids start with it: 8 digits."""
    return f"{bucket:0{_BUCKET_DIGITS}d}"


def new_file_id_prefix(bucket: int, *, fixed: bool = False, prefix: str | None = None) -> str:
    """Return the file id prefix of a new file group of a bucket.

    fixed    Flink's form, the same for every writer, instead of a random UUID
    prefix   the UUID to put the bucket into, instead of a random one
    """
    if fixed:
        return bucket_text(bucket) + _FIXED_SUFFIX
    return bucket_text(bucket) + (prefix or str(uuid4()))[_BUCKET_DIGITS:]


def bucket_of_file_id(file_id: str) -> int:
    """Parse the bucket a file id belongs to.

    errors   InvalidInputError when the id does not start with 8 digits (a file of another index)
    """
    head = file_id[:_BUCKET_DIGITS]
    if len(head) != _BUCKET_DIGITS or not head.isascii() or not head.isdigit():
        raise InvalidInputError(
            f"file id {file_id!r} contains no bucket number: the table was written with another index"
        )
    return int(head)


@inlined
def _find(data: Any, byte: Any, start: Any, end: Any) -> Any:
    for i in range(start, end):
        if data[i] == byte:
            return i
    return -1


@inlined
def _wanted(data: Any, start: Any, end: Any, names: Any, name_offsets: Any) -> Any:
    for f in range(len(name_offsets) - 1):
        at, length = name_offsets[f], name_offsets[f + 1] - name_offsets[f]
        if length == end - start:
            same = True
            for i in range(length):
                if names[at + i] != data[start + i]:
                    same = False
                    break
            if same:
                return True
    return False


@inlined
def _kind(data: Any, start: Any, end: Any) -> Any:
    """Return which of the two placeholders the value is, if any."""
    for kind, text in ((_NULL, b"__null__"), (_EMPTY, b"__empty__")):
        if end - start == len(text):
            same = True
            for i in range(len(text)):
                if data[start + i] != text[i]:
                    same = False
                    break
            if same:
                return kind
    return _TEXT


@kernel
def _cut(data: Any, start: Any, end: Any, names: Any, name_offsets: Any, every: Any, spans: Any) -> Any:
    """Cut the index values of a key into spans[i] = (start, end, kind), in the key's order; return their number."""
    count = 0
    if _find(data, 44, start, end) >= 0 and _find(data, 58, start, end) >= 0:
        at = start
        while at < end:
            colon = _find(data, 58, at, end)
            if colon < 0:
                break
            following = _find(data, 58, colon + 1, end)
            comma = -1
            while following >= 0:
                i = following
                while i > colon and data[i] != 44:
                    i -= 1
                if i > colon:
                    comma = i
                    break
                following = _find(data, 58, following + 1, end)
            stop = comma if comma >= 0 else end
            if every or _wanted(data, at, colon, names, name_offsets):
                spans[count, 0], spans[count, 1] = colon + 1, stop
                spans[count, 2] = _kind(data, colon + 1, stop)
                count += 1
            at = stop + 1
    if count == 0:
        spans[0, 0], spans[0, 1], spans[0, 2] = start, end, _TEXT
        count = 1
    return count


@inlined
def _scratch(offsets: Any) -> Any:
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return np.empty((longest + 2, 3), np.int64)


@kernel
def _list_hashes(data: Any, offsets: Any, names: Any, name_offsets: Any, every: Any, out: Any) -> None:
    spans = _scratch(offsets)
    for i in range(len(out)):
        count = _cut(data, offsets[i], offsets[i + 1], names, name_offsets, every, spans)
        h = np.uint32(1)
        for v in range(count):
            h = np.uint32(h * np.uint32(31))
            if spans[v, 2] == _TEXT:
                h = np.uint32(h + java_hash_span(data, spans[v, 0], spans[v, 1]))
        out[i] = np.int32(h)


@kernel
def _join(data: Any, offsets: Any, names: Any, name_offsets: Any, every: Any, ends: Any, out: Any, write: Any) -> None:
    """Join values in two calls. First (write false): fills the offsets `ends`; second: copies the values to `out`."""
    spans = _scratch(offsets)
    at = 0
    for i in range(len(offsets) - 1):
        count = _cut(data, offsets[i], offsets[i + 1], names, name_offsets, every, spans)
        for v in range(count):
            start, end = spans[v, 0], spans[v, 1]
            if spans[v, 2] == _NULL:
                if write:
                    for j in range(4):
                        out[at + j] = b"null"[j]
                at += 4
            elif spans[v, 2] == _TEXT:
                if write:
                    for j in range(start, end):
                        out[at + j - start] = data[j]
                at += end - start
        ends[i + 1] = at
