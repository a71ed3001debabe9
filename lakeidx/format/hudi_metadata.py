"""Keys and locations inside Hudi's metadata table, as text and numbers (the table itself is not read here).

=====================  ================================================================================================
key                    parts; each part is Base64-encoded by itself and the padding stays in the middle
=====================  ================================================================================================
bloom_filters          B64(partition id) + B64(file id)
column_stats           B64(column id) + B64(partition id) + B64(file id)
partition_stats        B64(column id) + B64(partition id)
=====================  ================================================================================================

partition id = XXH64 of the partition path (``.`` for the empty one), column id = XXH64 of the column, file id = MD5
of the file NAME. The XXH64 seed is the int 0xdabadaba widened to 64 bits, sign included; hash bytes are big endian.

A record index entry keeps a file id either as UUID halves and a number (encoding 0) or as text (encoding 1).

source   org.apache.hudi.metadata.{HoodieMetadataPayload,HoodieTableMetadataUtil},
         org.apache.hudi.common.util.hash.HashID, release 1.0.2; golden/hudi/metadata.json
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from uuid import UUID

import xxhash

from lakeidx.codec.hudi_hash import java_string_hash, signed32
from lakeidx.errors import InvalidInputError

_SEED32 = 0xDABADABA
# The int seed is negative; widening it to a long keeps the sign.
_SEED64 = 0xFFFFFFFF_DABADABA
_UUID_CHARS = 36


def hash_id_64(text: str) -> bytes:
    """8 bytes that stand for a column or partition."""
    return xxhash.xxh64_digest(text.encode("utf-8"), seed=_SEED64)


def hash_id_32(text: str) -> bytes:
    """4 bytes, the short form of the same."""
    return xxhash.xxh32_digest(text.encode("utf-8"), seed=_SEED32)


def hash_id_128(text: str) -> bytes:
    """16 bytes that stand for a file name."""
    return hashlib.md5(text.encode("utf-8"), usedforsecurity=False).digest()


def partition_identifier(partition: str) -> str:
    """The partition path under which the metadata table files a partition."""
    return partition or "."


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _partition_id(partition: str) -> str:
    return _b64(hash_id_64(partition_identifier(partition)))


def bloom_filter_key(partition: str, file_name: str) -> str:
    """Key of a file's filter in the metadata partition ``bloom_filters``: 36 characters."""
    return _partition_id(partition) + _b64(hash_id_128(file_name))


def column_stats_key(partition: str, file_name: str, column: str) -> str:
    """Key of a column's statistics in ``column_stats``: 48 characters."""
    return _b64(hash_id_64(column)) + bloom_filter_key(partition, file_name)


def partition_stats_key(partition: str, column: str) -> str:
    """Key of a column's statistics over a partition in ``partition_stats``: 24 characters."""
    return _b64(hash_id_64(column)) + _partition_id(partition)


def file_group_index(key: str, file_groups: int) -> int:
    """The file group of a metadata partition that holds a key: 0..file_groups-1."""
    h = java_string_hash(key)
    # Java's abs of the smallest int is itself; the remainder then is negative and its abs is taken again.
    magnitude = h if h == -(2**31) else abs(h)
    return abs(magnitude) % file_groups


def secondary_index_key(secondary: str, record_key: str) -> str:
    """Key of a secondary index entry; ``\\`` and ``$`` inside the parts are escaped."""
    return f"{_escape(secondary)}${_escape(record_key)}"


def split_secondary_index_key(key: str) -> tuple[str, str]:
    """(secondary value, record key) of a secondary index key.

    errors   InvalidInputError when no bare ``$`` parts it
    """
    parts, at = [""], 0
    while at < len(key):
        if key[at] == "\\" and at + 1 < len(key):
            parts[-1] += key[at + 1]
            at += 2
            continue
        if key[at] == "$":
            parts.append("")
        else:
            parts[-1] += key[at]
        at += 1
    if len(parts) != 2:
        raise InvalidInputError(f"{key!r} is no secondary index key: it has {len(parts) - 1} separators")
    return parts[0], parts[1]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("$", "\\$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndexEntry:
    """One payload of the record index.

    high, low    halves of the file id's UUID, signed; -1 with encoding 1
    file_index   the number after the UUID; -1 when there is none, or with encoding 1
    file_id      the text with encoding 1, else ""
    instant_ms   the commit's instant as epoch milliseconds of the writer's LOCAL time
    """

    partition: str
    high: int
    low: int
    file_index: int
    file_id: str
    instant_ms: int
    encoding: int

    @property
    def full_file_id(self) -> str:
        """The file id as base files carry it in their names."""
        if self.encoding == 1:
            return self.file_id
        uuid = UUID(int=(self.high % 2**64) << 64 | self.low % 2**64)
        return str(uuid) if self.file_index == -1 else f"{uuid}-{self.file_index}"

    def instant(self, zone: tzinfo = UTC) -> str:
        """The instant as 17 digits, for a writer whose clock stood in `zone`."""
        seconds, millis = divmod(self.instant_ms, 1000)
        return datetime.fromtimestamp(seconds, zone).strftime("%Y%m%d%H%M%S") + f"{millis:03d}"


def record_index_entry(
    partition: str, file_id: str, instant: str, *, encoding: int = 0, zone: tzinfo = UTC
) -> RecordIndexEntry:
    """Encode a location as the record index stores it.

    instant   14 (milliseconds 999) or 17 digits
    errors    InvalidInputError for an instant or file id of another form
    """
    try:
        moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
        millis = int(instant[14:]) if len(instant) == 17 else 999
    except ValueError as error:
        raise InvalidInputError(f"{instant!r} is no instant: {error}") from error
    instant_ms = int(moment.timestamp()) * 1000 + millis
    if encoding == 1:
        return RecordIndexEntry(
            partition=partition, high=-1, low=-1, file_index=-1, file_id=file_id, instant_ms=instant_ms, encoding=1
        )
    try:
        uuid = UUID(file_id[:_UUID_CHARS])
        number = -1 if len(file_id) == _UUID_CHARS else int(file_id[_UUID_CHARS + 1 :])
    except ValueError as error:
        raise InvalidInputError(f"{file_id!r} is no UUID with a number: use encoding 1") from error
    high, low = (signed32(v >> 32) << 32 | v & 0xFFFFFFFF for v in (uuid.int >> 64, uuid.int & (2**64 - 1)))
    return RecordIndexEntry(
        partition=partition, high=high, low=low, file_index=number, file_id="", instant_ms=instant_ms, encoding=0
    )
