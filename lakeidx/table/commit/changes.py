"""Changes of a commit, and how they travel between stages as bytes.

source   org.apache.paimon.table.sink.CommitMessageImpl, org.apache.paimon.manifest.ManifestCommittable, release 1.4.2
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import FileKind, ManifestEntry, decode_manifest, encode_manifest
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.format.snapshot import CommitKind
from lakeidx.table.commit.conflicts import VectorPlaces

#: Commit identifier of batch writers.
_BATCH_IDENTIFIER = 9223372036854775807


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges:
    """Entries for up to two snapshots: APPEND (what writers flushed) and COMPACT (what compactions replaced).

    append, compact                       data files, ADD and DELETE
    append_index, compact_index           index files, ADD and DELETE
    append_changelog, compact_changelog   changelog files, ADD
    """

    append: tuple[ManifestEntry, ...] = ()
    append_index: tuple[IndexEntry, ...] = ()
    append_changelog: tuple[ManifestEntry, ...] = ()
    compact: tuple[ManifestEntry, ...] = ()
    compact_index: tuple[IndexEntry, ...] = ()
    compact_changelog: tuple[ManifestEntry, ...] = ()

    @property
    def has_append(self) -> bool:
        """True when an APPEND snapshot would not be empty."""
        return bool(self.append or self.append_index or self.append_changelog)

    @property
    def has_compact(self) -> bool:
        """True when a COMPACT snapshot would not be empty."""
        return bool(self.compact or self.compact_index or self.compact_changelog)

    def new_files(self) -> list[ManifestEntry]:
        """Return all data file entries with kind ADD."""
        return [e for e in (*self.append, *self.compact) if e.kind is FileKind.ADD]

    def partitions(self) -> set[bytes]:
        """Return the partitions any entry refers to."""
        return {partition for partition, _ in self.buckets()}

    def buckets(self) -> set[tuple[bytes, int]]:
        """Return the (partition, bucket) places any entry refers to."""
        data = (*self.append, *self.compact, *self.append_changelog, *self.compact_changelog)
        index = (*self.append_index, *self.compact_index)
        return {(e.partition, e.bucket) for e in data} | {(e.partition, e.bucket) for e in index}


_DATA_PARTS = ("append", "append_changelog", "compact", "compact_changelog")
_INDEX_PARTS = ("append_index", "compact_index")
CHANGES_MAGIC = b"LXCHG1\n"


def encode_changes(changes: TableChanges) -> bytes:
    """Encode changes as one byte string.

    A magic line, a JSON line with each part's name, length and CRC-32, then one Avro container per part.
    """
    parts: list[tuple[str, bytes]] = []
    for name in _DATA_PARTS:
        entries = getattr(changes, name)
        if entries:
            parts.append((name, encode_manifest(list(entries))))
    for name in _INDEX_PARTS:
        index_entries = getattr(changes, name)
        if index_entries:
            parts.append((name, encode_index_manifest(list(index_entries))))
    head = json.dumps([[name, len(data), crc32(data)] for name, data in parts]).encode() + b"\n"
    return b"".join([CHANGES_MAGIC, head, *(data for _, data in parts)])


def decode_changes(data: bytes, path: str | None = None) -> TableChanges:
    """Decode changes, the inverse of `encode_changes`; CorruptFileError when the bytes are not its output."""
    end = data.find(b"\n", len(CHANGES_MAGIC))
    if not data.startswith(CHANGES_MAGIC) or end < 0:
        raise CorruptFileError("not a lakeidx change file", path=path, offset=0)
    try:
        head = [_described(*part) for part in json.loads(data[len(CHANGES_MAGIC) : end])]
    except (ValueError, TypeError) as error:
        raise CorruptFileError(
            f"the head of the change file cannot be read: {error}", path=path, offset=len(CHANGES_MAGIC)
        ) from error
    position = end + 1
    parts: dict[str, tuple[ManifestEntry, ...] | tuple[IndexEntry, ...]] = {}
    for name, length, checksum in head:
        part = data[position : position + length]
        if name not in (*_DATA_PARTS, *_INDEX_PARTS) or len(part) != length:
            raise CorruptFileError(
                f"part {name!r} of the change file is cut short or unknown", path=path, offset=position
            )
        if checksum is not None and crc32(part) != checksum:
            raise CorruptFileError(
                f"part {name!r} of the change file does not match its checksum", path=path, offset=position
            )
        where = path or "changes"
        if name in _DATA_PARTS:
            parts[name] = tuple(decode_manifest(part, where))
        else:
            parts[name] = tuple(decode_index_manifest(part, where))
        position += length
    return TableChanges(**parts)  # type: ignore[arg-type]


def _described(name: str, length: int, checksum: int | None = None) -> tuple[str, int, int | None]:
    """Return the description of a part in the head; older releases wrote no checksum."""
    return str(name), int(length), None if checksum is None else int(checksum)


def merge_changes(all_changes: Iterable[TableChanges]) -> TableChanges:
    """Merge changes of many writers."""
    gathered: dict[str, list[ManifestEntry | IndexEntry]] = {n: [] for n in (*_DATA_PARTS, *_INDEX_PARTS)}
    for changes in all_changes:
        for name, entries in gathered.items():
            entries.extend(getattr(changes, name))
    return TableChanges(**{name: tuple(entries) for name, entries in gathered.items()})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Part of the table that an OVERWRITE replaces.

    partitions   these partitions (bytes), None = the whole table
    """

    partitions: frozenset[bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One commit.

    commit_user, commit_identifier   identity that makes the commit at-most-once; derived from the batch id
    base_snapshot_id                 snapshot the batch was planned on; None when the table was empty
    assigned_on                      partition -> bucket -> HASH index file name that the buckets were assigned on;
                                     None when no assignment was made (fixed buckets, compaction)
    by_partition                     a key's bucket depends on all buckets of its partition, so any change of its index counts
    alone_since                      snapshot after which no one else may have written rows: what the batch says about a
                                     key holds over all partitions; None when it does not
    check_sequences                  refuse when a touched bucket got rows at or above this batch's sequence numbers
    overwrite                        replace instead of add
    exact_files                      buckets that must hold exactly these data files (by name): their index is rewritten
    vectors                          deletion vectors that the rows of a compaction were read with, by
                                     (partition, bucket, data file)
    schema                           the one the changes were planned with, when they must not outlive it; None = any
    even_empty                       put an APPEND, or COMPACT, snapshot also where nothing is added: its properties say something,
                                     or manifests are merged
    tried_before                     an earlier call may have committed these changes, and its snapshot may have expired since
    operation                        what users call it, in the snapshot: DELETE, UPDATE, MERGE; releases before 2.0 skip it
    replaces                         the snapshot is an OVERWRITE also where it removes no file
    files_since_ms                   none of its files is older (epoch ms); None when they were written just now
    """

    commit_user: str
    changes: TableChanges
    commit_identifier: int = _BATCH_IDENTIFIER
    base_snapshot_id: int | None = None
    assigned_on: Mapping[bytes, Mapping[int, str]] | None = None
    by_partition: bool = False
    alone_since: int | None = None
    check_sequences: bool = True
    overwrite: Overwrite | None = None
    watermark: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    exact_files: Mapping[tuple[bytes, int], frozenset[str]] = field(default_factory=dict)
    vectors: VectorPlaces = field(default_factory=dict)
    schema: TableSchema | None = None
    even_empty: CommitKind | None = None
    tried_before: bool = True
    files_since_ms: int | None = None
    operation: str | None = None
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """Outcome of a commit.

    snapshot_ids   ids put for it, ascending (APPEND or OVERWRITE, then COMPACT); empty when there was nothing to commit
    already        the batch had been committed before; nothing was put now
    """

    snapshot_ids: tuple[int, ...]
    already: bool = False
