"""Iceberg metadata of a snapshot, written when the snapshot is there.

*On top of the last one.* When the hint names the snapshot before, its metadata is the base: manifests in which no file was removed
are listed again, so the cost follows the commit. Otherwise (a commit that wrote none, a writer that died, a rollback) it is made
from the table's state, as Java does, and everything older goes.

*Which files are listed.* Those of the highest level, which hold every key once. With deletion vectors and format version 3 those of
all levels above 0, and the vectors. Made from the state, also other files whose keys no other file has.

*Tags.* Those of listed snapshots are references; a tag that is made or goes changes the newest metadata in its place.

*Who writes.* The one who committed the newest snapshot. Where the metadata could not be written, the table has its rows all the
same: that is said in the log, and the next commit repairs it.

source   org.apache.paimon.iceberg.IcebergCommitCallback, release 1.4.2; what differs: metadata of another history is replaced, all
         tags of a snapshot are listed, and the summary names the snapshot it was made from, as later releases do
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from lakeidx.codec.containers.avro import Record
from lakeidx.codec.rows.binary_row import split_arity
from lakeidx.codec.rows.binary_row_read import decode_row
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError, UnavailableError
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.paths import MAIN_BRANCH
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.storage.base import FileInfo
from lakeidx.table.expiration.read import read_tags
from lakeidx.table.iceberg.files import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    IDENTITY,
    Entry,
    MetadataDir,
    metadata_dir,
    version_of,
)
from lakeidx.table.iceberg.values import bound, has_bounds, iceberg_field, order_of_bound, partition_value
from lakeidx.table.index_files import index_file_path
from lakeidx.table.intervals import sections_of
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import DELETION_VECTORS, data_file_path, decode_partition_dict, load_view

log = logging.getLogger(__name__)
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: By path: the entry of a file that a commit added or removed.
Files = dict[str, ManifestEntry]


def check_publishable(metadata: TableMetadata, schema: TableSchema) -> None:
    """Refuse, before a commit, a table that Iceberg metadata cannot describe.

    errors   InvalidInputError
    """
    metadata_dir(metadata.paths.root, schema)
    schema.once("iceberg schema", lambda: _schema_json(schema))
    for key in schema.partition_keys:
        if _AVRO_NAME.fullmatch(key) is None:
            raise InvalidInputError(
                f"partition column {key!r} cannot be in Iceberg metadata: its name must be of letters, digits and '_'",
                path=metadata.paths.root,
            )


def publish_iceberg(metadata: TableMetadata, schema: TableSchema, snapshot_id: int | None = None) -> None:
    """Write the Iceberg metadata of a snapshot, when it is the newest one and has none yet; nothing for branches.

    snapshot_id   one that was committed; None: the newest, to repair what a writer that died or did not know the option left
    errors   none for what the store does not answer: logged, as the snapshot stands and the next commit repairs it
    """
    if not schema.table_options.writes_iceberg or metadata.paths.branch != MAIN_BRANCH:
        return
    try:
        _Publication(metadata, schema).run(snapshot_id)
    except (UnavailableError, NotFoundError, CorruptFileError) as error:
        log.warning(
            "snapshot %s is committed, but Iceberg readers do not see it before the next commit or expiry: %s",
            snapshot_id or "that is the newest",
            error,
        )


def publish_tags(metadata: TableMetadata, schema: TableSchema) -> None:
    """Give the newest Iceberg metadata the tags that there are now; nothing for branches.

    errors   none for what the store does not answer: logged, as the next commit lists the tags again
    """
    if not schema.table_options.writes_iceberg or metadata.paths.branch != MAIN_BRANCH:
        return
    try:
        _Publication(metadata, schema).renew_tags()
    except (UnavailableError, NotFoundError, CorruptFileError, LookupError, TypeError) as error:
        log.warning("Iceberg readers do not see the change of the tags before the next commit: %s", error)


class _Publication:
    def __init__(self, metadata: TableMetadata, schema: TableSchema) -> None:
        self.metadata = metadata
        self.schema = schema
        self.options = schema.table_options
        self.dir = MetadataDir(metadata.store, metadata.paths.root, schema)
        self.vectors = (
            self.options.deletion_vectors_enabled
            and self.options.deletion_vectors_bitmap64
            and self.options.metadata_iceberg_format_version == 3
        )

    def run(self, only: int | None) -> None:
        """Write the metadata of the newest snapshot, name it, and delete what went out of use; nothing when it is not `only`."""
        snapshot = self.metadata.latest_snapshot()
        if snapshot is None or only not in (None, snapshot.id):
            return
        named = self.dir.named()
        if named == snapshot.id and _is_of(self.dir.read(named), snapshot):
            there = self.dir.files() if only is None else []
            if there and self._is_newest(snapshot):
                self.metadata.store.delete_many([*self._old(there, snapshot.id, whole=False)])
            return
        base: dict[str, Any] | None = None
        try:
            base = self._base(snapshot) if named == snapshot.id - 1 else None
            content, gone = self._made(base, snapshot)
        except (NotFoundError, CorruptFileError, LookupError, TypeError) as error:
            if named != snapshot.id - 1:
                raise
            log.warning("Iceberg metadata of snapshot %d is damaged, and made anew: %s", named, error)
            self.dir.forget()
            base = None
            content, gone = self._made(base, snapshot)
        self.dir.write_version(snapshot.id, content)
        if base is None:
            gone = [*self._old(self.dir.files(), snapshot.id, whole=True)]
        elif self.options.metadata_iceberg_delete_after_commit_enabled:
            # One that a commit could not delete goes at an expiry.
            gone.append(self.dir.version_path(snapshot.id - self.options.metadata_iceberg_previous_versions_max - 1))
        if not self._is_newest(snapshot):
            # Another one was committed meanwhile: its writer makes the metadata of both.
            self.dir.forget()
            return
        self.dir.write_hint(snapshot.id)
        self.metadata.store.delete_many(gone)

    def _is_newest(self, snapshot: Snapshot) -> bool:
        """Return True when no later snapshot is there: then files that were listed before are not of one."""
        newest = self.metadata.latest_snapshot()
        return newest is not None and newest.identity == snapshot.identity

    def _made(self, base: dict[str, Any] | None, snapshot: Snapshot) -> tuple[dict[str, Any], list[str]]:
        """Write the manifests; return the metadata, and the files of snapshots that have expired from it."""
        manifests = self._from_state(snapshot) if base is None else self._on_top(base, snapshot)
        content = self._content(base, snapshot, manifests)
        gone = [] if base is None else self._expire(content, snapshot.id)
        content["refs"] = self._references(content)
        return content, gone

    def renew_tags(self) -> None:
        """Write the newest metadata again where its references are not the tags."""
        named = self.dir.named()
        content = None if named is None else self.dir.read(named)
        if named is not None and content is not None:
            references = self._references(content)
            if content["refs"] != references:
                self.dir.write_version(named, content | {"refs": references})

    def _references(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the tags of the snapshots that metadata lists; Paimon says when they go, so they have no age."""
        listed = {s["snapshot-id"] for s in content["snapshots"]}
        return {
            name: {"snapshot-id": tag.snapshot.id, "type": "tag", "max-ref-age-ms": 2**63 - 1}
            for name, tag in read_tags(self.metadata).items()
            if tag.snapshot.id in listed
        }

    def _base(self, snapshot: Snapshot) -> dict[str, Any] | None:
        """Return the metadata of the snapshot before, when this one can be put on top of it."""
        found = self.dir.read(snapshot.id - 1)
        if found is None or found["format-version"] != self.dir.version:
            return None
        try:
            before = self.metadata.earlier_snapshot(snapshot.id - 1)
        except NotFoundError:
            return None
        schemas = {s["schema-id"]: s for s in found["schemas"]}
        mine = _schema_json(self.schema)
        known = found["current-schema-id"] <= self.schema.id and schemas.get(self.schema.id, mine) == mine
        lacks_row_ids = self.dir.version == 3 and "next-row-id" not in found
        return found if known and not lacks_row_ids and _is_of(found, before) else None

    # Manifests

    def _from_state(self, snapshot: Snapshot) -> list[Record]:
        view = load_view(self.metadata, snapshot)
        buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
        for entry in view.entries:
            buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
        files: list[Entry] = []
        for entries in buckets.values():
            names = {f.file_name for f in self._standing_alone([e.file for e in entries])}
            files += [
                self._data_entry(data_file_path(self.metadata, e), e, snapshot.id)
                for e in entries
                if e.file.file_name in names
            ]
        manifests = [self.dir.write_manifest(files, snapshot.id)] if files else []
        return manifests + self._vector_manifests(snapshot, view.index)

    def _standing_alone(self, files: list[DataFileMeta]) -> Iterable[DataFileMeta]:
        """Return the files of a bucket that hold the newest row of their keys, as far as Java finds them."""
        options = self.options
        if not self.schema.primary_keys:
            return files
        if self.vectors or options.merge_engine == "first-row":
            return [f for f in files if f.level > 0]
        if options.deletion_vectors_enabled:
            return [f for f in files if f.level == options.max_levels - 1]
        if all(f.level > 0 and not f.delete_row_count for f in files) and len({f.level for f in files}) == 1:
            return files
        sections = [[f for run in section for f in run] for section in sections_of(files, self.schema.key_types)]
        packed = _packed(sections, options.source_split_target_size, options.source_split_open_file_cost)
        return [group[0] for group in packed if len(group) == 1 and not group[0].delete_row_count]

    def _on_top(self, base: dict[str, Any], snapshot: Snapshot) -> list[Record]:
        added, removed = self._changes(snapshot)
        touched = [self._partition(e) for e in (*added.values(), *removed.values())]
        data: list[Record] = []
        vectors: list[Record] = []
        for manifest in self.dir.read_avro(base["snapshots"][-1]["manifest-list"]):
            if manifest["content"] == DELETES:
                vectors.append(manifest)
            elif not removed or not self._may_hold(manifest, touched):
                data.append(manifest)
            else:
                data.append(self._without(manifest, removed, added, snapshot.id))
        if added:
            entries = [self._data_entry(path, e, snapshot.id) for path, e in added.items()]
            data.append(self.dir.write_manifest(entries, snapshot.id))
        if self.metadata.earlier_snapshot(snapshot.id - 1).index_manifest != snapshot.index_manifest:
            vectors = self._vector_manifests(snapshot, self.metadata.load_index_manifest(snapshot.index_manifest))
        return self._compacted(data, snapshot.id) + vectors

    def _changes(self, snapshot: Snapshot) -> tuple[Files, Files]:
        """Return the files that a snapshot adds to what is listed, and those it removes; one that changes its level is both."""
        lists = self.metadata.load_manifest_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        entries = list(self.metadata.load_manifests(lists))
        paths = [data_file_path(self.metadata, e) for e in entries]
        pairs = [*zip(paths, entries, strict=True)]
        added = {path: e for path, e in pairs if e.kind is FileKind.ADD and self._is_listed(e.file)}
        return added, {path: e for path, e in pairs if e.kind is FileKind.DELETE}

    def _is_listed(self, file: DataFileMeta) -> bool:
        if not self.schema.primary_keys:
            return True
        return file.level > 0 if self.vectors else file.level == self.options.max_levels - 1

    def _without(self, manifest: Record, removed: Files, added: Files, snapshot_id: int) -> Record:
        """Return a manifest without the removed files: itself when it has none; of `added`, what it has is taken away."""
        entries = self._entries(manifest)
        gone = set()
        for entry in entries:
            path = entry["data_file"]["file_path"]
            if entry["status"] == DELETED:
                continue
            if path in added:
                del added[path]
            elif path in removed:
                gone.add(path)
        if not gone:
            return manifest
        kept = []
        for entry in entries:
            if entry["status"] != DELETED:
                status = DELETED if entry["data_file"]["file_path"] in gone else EXISTING
                kept.append(self._again({**entry, "status": status}))
        return self.dir.write_manifest(kept, snapshot_id)

    def _compacted(self, manifests: list[Record], snapshot_id: int) -> list[Record]:
        """Merge small manifests when there are many."""
        options = self.options
        target = options.manifest_target_file_size
        small = [m for m in manifests if m["manifest_length"] < target * 2 // 3]
        total = sum(m["manifest_length"] for m in small)
        if len(small) < options.metadata_iceberg_compaction_min_file_num or (
            len(small) < options.metadata_iceberg_compaction_max_file_num and total < target
        ):
            return manifests
        entries: list[Entry] = []
        for manifest in small:
            for entry in self._entries(manifest):
                new = manifest["added_snapshot_id"] == snapshot_id
                if entry["status"] == DELETED and not new:
                    continue
                older = entry["status"] == ADDED and entry["snapshot_id"] != snapshot_id
                entries.append(self._again({**entry, "status": EXISTING} if older else entry))
        made = [m["manifest_path"] for m in small if m["added_snapshot_id"] == snapshot_id]
        merged = self.dir.write_manifest(entries, snapshot_id)
        self.metadata.store.delete_many(made)
        return [*(m for m in manifests if m not in small), merged]

    def _vector_manifests(self, snapshot: Snapshot, index: Iterable[IndexEntry]) -> list[Record]:
        if not self.vectors:
            return []
        entries = [
            Entry(_entry(snapshot.id, self._vector_file(e, meta)), self._values(e.partition))
            for e in index
            if e.index_type == DELETION_VECTORS
            for meta in e.dv_ranges or ()
        ]
        return [self.dir.write_manifest(entries, snapshot.id, DELETES)] if entries else []

    def _vector_file(self, entry: IndexEntry, meta: Any) -> Record:
        if meta.cardinality is None:
            raise CorruptFileError(f"the deletion vector of {meta.data_file_name} does not say how many rows it has",
                                   path=index_file_path(self.metadata, self.schema, entry))  # fmt: skip
        values = decode_partition_dict(entry.partition, self.schema)
        return {
            "content": 1,
            "file_path": index_file_path(self.metadata, self.schema, entry),
            "file_format": "puffin",
            "partition": self._partition_record(self._values(entry.partition)),
            "record_count": meta.cardinality,
            "file_size_in_bytes": entry.file_size,
            "referenced_data_file": self.metadata.paths.data_file(values, entry.bucket, meta.data_file_name),
            "content_offset": meta.offset,
            "content_size_in_bytes": meta.length,
        }

    # Entries

    def _data_entry(self, path: str, entry: ManifestEntry, snapshot_id: int) -> Entry:
        file, values = entry.file, self._values(entry.partition)
        nulls, low, high = _statistics(file, self.metadata.load_schema(file.schema_id))
        record = {
            "content": 0,
            "file_path": path,
            "file_format": file.file_name.rpartition(".")[2],
            "partition": self._partition_record(values),
            "record_count": file.row_count,
            "file_size_in_bytes": file.file_size,
            "null_value_counts": nulls,
            "lower_bounds": low,
            "upper_bounds": high,
        }
        return Entry(_entry(snapshot_id, record), values)

    def _entries(self, manifest: Record) -> list[Record]:
        """Read a manifest; in format version 3, where a file has its first row's id from the manifest, give it to the file."""
        entries = self.dir.read_avro(manifest["manifest_path"])
        at = manifest.get("first_row_id")
        for entry in entries:
            file = entry["data_file"]
            if at is not None and entry["status"] != DELETED and file.get("first_row_id") is None:
                file["first_row_id"] = at
                at += file["record_count"]
        return entries

    def _again(self, record: Record) -> Entry:
        """Return an entry of a manifest that was read, for one that is written."""
        partition = record["data_file"]["partition"]
        return Entry(record, tuple(partition[k] for k in self.schema.partition_keys))

    def _values(self, partition: bytes) -> tuple[Any, ...]:
        """Return the values of a partition as manifests have them."""
        inner = decode_partition_dict(partition, self.schema)
        return tuple(partition_value(v, t) for v, t in zip(inner.values(), self.schema.partition_types, strict=True))

    def _partition(self, entry: ManifestEntry) -> tuple[Any, ...]:
        inner = decode_partition_dict(entry.partition, self.schema)
        types = self.schema.partition_types
        return tuple(
            None if v is None else order_of_bound(bound(v, t), t) for v, t in zip(inner.values(), types, strict=True)
        )

    def _partition_record(self, values: Sequence[Any]) -> Record:
        return dict(zip(self.schema.partition_keys, values, strict=True))

    def _may_hold(self, manifest: Record, partitions: Sequence[tuple[Any, ...]]) -> bool:
        """Return False when by its bounds surely none of the partitions is in a manifest."""
        bounds = [
            None
            if s["lower_bound"] is None
            else (order_of_bound(s["lower_bound"], t), order_of_bound(s["upper_bound"], t))
            for s, t in zip(manifest["partitions"] or (), self.schema.partition_types, strict=True)
        ]
        return any(
            all(v is None or b is None or bool(b[0] <= v <= b[1]) for v, b in zip(p, bounds, strict=True))
            for p in partitions
        )

    # The metadata file

    def _content(self, base: dict[str, Any] | None, snapshot: Snapshot, manifests: list[Record]) -> dict[str, Any]:
        first_row = int(base.get("next-row-id", 0)) if base else 0
        rows = self._number_rows(manifests, first_row) if self.dir.version == 3 else 0
        summary: dict[str, str] = {"operation": _operation(manifests, snapshot.id)}
        if snapshot.uuid is not None:
            summary[IDENTITY] = snapshot.uuid
        new: dict[str, Any] = {"sequence-number": snapshot.id, "snapshot-id": snapshot.id}
        if base is not None:
            new["parent-snapshot-id"] = snapshot.id - 1
        new |= {
            "timestamp-ms": snapshot.time_millis,
            "summary": summary,
            "manifest-list": self.dir.write_list(manifests),
            "schema-id": self.schema.id,
        }
        keys = self.schema.partition_keys
        known = {} if base is None else {s["schema-id"]: s for s in base["schemas"]}
        schemas = [known.get(i) or _schema_json(self.metadata.load_schema(i)) for i in range(self.schema.id + 1)]
        content: dict[str, Any] = {
            "format-version": self.dir.version,
            "table-uuid": str(uuid4()) if base is None else base["table-uuid"],
            "location": self.metadata.paths.root,
            "last-sequence-number": snapshot.id,
            "last-updated-ms": max(int(time.time() * 1000), snapshot.time_millis),
            "last-column-id": max(self.schema.highest_field_id, 0 if base is None else base["last-column-id"]),
            "schemas": schemas,
            "current-schema-id": self.schema.id,
            "partition-specs": [
                {
                    "spec-id": 0,
                    "fields": [
                        {"name": k, "transform": "identity", "source-id": self.schema.field(k).id, "field-id": 1000 + i}
                        for i, k in enumerate(keys)
                    ],
                }
            ],
            "default-spec-id": 0,
            "last-partition-id": 999 + len(keys),
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "snapshots": [*([] if base is None else base["snapshots"]), new],
            "current-snapshot-id": snapshot.id,
            "properties": {},
            "refs": {},
        }
        if self.dir.version == 3:
            new |= {"first-row-id": first_row, "added-rows": rows}
            content["next-row-id"] = first_row + rows
        return content

    def _number_rows(self, manifests: list[Record], first: int) -> int:
        """Give the manifests of data that have none the id of their first row; return how many rows got ids."""
        at = first
        for manifest in manifests:
            if manifest["content"] == DATA and manifest.get("first_row_id") is None:
                manifest["first_row_id"] = at
                at += manifest["added_rows_count"] + manifest["existing_rows_count"]
        return at - first

    # What goes

    def _expire(self, content: dict[str, Any], snapshot_id: int) -> list[str]:
        """Take the snapshots out of new metadata that are past their time; return the files that only they had."""
        snapshots = content["snapshots"]
        first = next(
            i for i, s in enumerate(snapshots) if s["snapshot-id"] == snapshot_id or not self._is_past(s, snapshot_id)
        )
        if not first:
            return []
        content["snapshots"] = snapshots[first:]
        used = {m["manifest_path"] for m in self.dir.read_avro(snapshots[first]["manifest-list"])}
        gone: set[str] = set()
        for snapshot in snapshots[:first]:
            try:
                gone.update(m["manifest_path"] for m in self.dir.read_avro(snapshot["manifest-list"]))
            except NotFoundError:
                continue
            gone.add(snapshot["manifest-list"])
        return sorted(gone - used)

    def _is_past(self, snapshot: Record, newest: int) -> bool:
        options, number = self.options, snapshot["snapshot-id"]
        if number > newest - options.snapshot_num_retained_min:
            return False
        limit = time.time() * 1000 - options.snapshot_time_retained
        return number <= newest - options.snapshot_num_retained_max or bool(snapshot["timestamp-ms"] < limit)

    def _old(self, there: Sequence[FileInfo], snapshot_id: int, *, whole: bool) -> Iterator[str]:
        """Return the files that were there and are out of use; `whole`: none of them is part of the new metadata."""
        mine = {*self.dir.written, self.dir.hint}
        options = self.options
        for file in there:
            version = version_of(file.name)
            if file.path in mine:
                continue
            if version is None:
                if whole and file.name.endswith(".avro"):
                    yield file.path
            elif version > snapshot_id or (
                options.metadata_iceberg_delete_after_commit_enabled
                and version < snapshot_id - options.metadata_iceberg_previous_versions_max
            ):
                yield file.path


def _entry(snapshot_id: int, file: Record) -> Record:
    return {
        "status": ADDED,
        "snapshot_id": snapshot_id,
        "sequence_number": snapshot_id,
        "file_sequence_number": snapshot_id,
        "data_file": file,
    }


def _statistics(file: DataFileMeta, schema: TableSchema) -> tuple[list[Record], list[Record], list[Record]]:
    """Return null counts, minima and maxima of a file as manifests have them; columns without any are left out."""
    names = schema.field_names if file.value_stats_cols is None else file.value_stats_cols
    stats = file.value_stats
    fields = [schema.field(n) for n in names]
    types = [f.type for f in fields]
    low, high = (decode_row(split_arity(v)[1], types) for v in (stats.min_values, stats.max_values))
    nulls = stats.null_counts or (None,) * len(fields)
    out: tuple[list[Record], list[Record], list[Record]] = ([], [], [])
    for field, count, least, most in zip(fields, nulls, low, high, strict=True):
        if count is not None:
            out[0].append({"key": field.id, "value": count})
        if has_bounds(field.type) and least is not None and most is not None:
            out[1].append({"key": field.id, "value": bound(least, field.type)})
            out[2].append({"key": field.id, "value": bound(most, field.type)})
    return out


def _packed(sections: list[list[DataFileMeta]], target: int, least: int) -> Iterator[list[DataFileMeta]]:
    """Pack sections in order into splits of about a size, as Java does."""
    group: list[DataFileMeta] = []
    size = 0
    for section in sections:
        weight = max(sum(f.file_size for f in section), least)
        if group and size + weight > target:
            yield group
            group, size = [], 0
        group = [*group, *section]
        size += weight
    if group:
        yield group


def _operation(manifests: Sequence[Record], snapshot_id: int) -> str:
    removes = any(m["deleted_files_count"] and m["added_snapshot_id"] == snapshot_id for m in manifests)
    return "overwrite" if removes else "append"


def _is_of(content: dict[str, Any] | None, snapshot: Snapshot) -> bool:
    """Return True when metadata was made from a snapshot, or does not say from which: releases up to 1.4.2 did not."""
    try:
        identity = (content or {})["snapshots"][-1]["summary"].get(IDENTITY)
    except (LookupError, TypeError):
        return False
    return bool(identity is None or snapshot.uuid is None or identity == snapshot.uuid)


def _schema_json(schema: TableSchema) -> dict[str, Any]:
    return {"type": "struct", "schema-id": schema.id, "fields": [iceberg_field(f) for f in schema.fields]}
