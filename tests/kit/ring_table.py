"""A table whose buckets are those of rings, written without the upsert pipeline, and the dictionary it must equal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.api.table import Table
from lakeidx.batch.assignment.row_keys import partition_codes
from lakeidx.codec.rows.binary_row_vec import hash_columns
from lakeidx.data.merge.merge_runs import merge_rows
from lakeidx.data.write_data_file import DataFileWriter
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.hash_index import decode_hash_index, encode_hash_index
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.key_index.bucket.bucket_index import BucketKeyIndex
from lakeidx.key_index.table_view import key_batch, make_tag_context
from lakeidx.maintenance.ring_resize import ResizeReport, run_ring_resize
from lakeidx.table.commit.changes import CommitRequest, TableChanges
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import HASH_INDEX, decode_partition_dict, load_view
from lakeidx.tasks.runner import LocalRunner, Runner
from tests.kit.small_tables import table_spec

#: (partition, key, value); value None = delete
Row = tuple[int, str, str | None]
OPTIONS = {
    "bucket": "-1",
    "index.type": "bucket",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.bucket.index.min.num.buckets": "1",
    "target-file-size": "1 mb",
}
_INSERT, _DELETE = 0, 3


class RingTable:
    """Batches are placed by `BucketKeyIndex`, as the pipeline does it, and kept as level-0 files with hash indexes.

    rows   what the table must hold: (partition, key) -> value
    """

    def __init__(self, folder: Path, options: dict[str, str] | None = None) -> None:
        spec = table_spec(
            "p INT NOT NULL, k STRING NOT NULL, v STRING",
            ["p", "k"],
            partitions=["p"],
            options={**OPTIONS, **(options or {})},
        )
        self.folder = folder
        self.index_dir = str(folder / "wh" / "_lakeidx" / "d" / "t" / "_index")
        self.handle = Table.create(str(folder / "wh" / "d.db" / "t"), spec)
        self.rows: dict[tuple[int, str], str] = {}
        self._commits = 0

    @property
    def metadata(self) -> TableMetadata:
        """Nothing kept from earlier reads."""
        return Table.open(self.handle.uri).metadata

    def upsert(self, rows: Sequence[Row]) -> None:
        """Commit a batch."""
        metadata = self.metadata
        schema, snapshot = metadata.latest_schema(), metadata.latest_snapshot()
        view = load_view(metadata, snapshot)
        table = pa.table(
            {
                "p": pa.array([r[0] for r in rows], pa.int32()),
                "k": pa.array([r[1] for r in rows], pa.string()),
                "v": pa.array([r[2] for r in rows], pa.string()),
            }
        )
        partitions, codes = partition_codes(table, ["p"], schema.partition_types)
        batch = key_batch(table, schema, (partitions, codes))
        placed = BucketKeyIndex().place_inserts(batch, make_tag_context(metadata, snapshot, index_dir=self.index_dir))
        entries, index = [], []
        for partition, bucket in sorted({(c, b) for c, b in zip(codes.tolist(), placed.tolist(), strict=True)}):
            mine = np.flatnonzero((codes == partition) & (placed == bucket))
            raw = partitions[partition]
            start = view.max_sequence_numbers().get((raw, bucket), -1) + 1
            part = table.take(pa.array(mine))
            kinds = [_DELETE if v is None else _INSERT for v in part.column("v").to_pylist()]
            columns = [np.arange(start, start + len(mine)), np.array(kinds, np.int8), *part.columns]
            kv = merge_rows(pa.table(columns, names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "p", "k", "v"]), schema)
            names = NewFileNames()
            folder = metadata.paths.bucket_dir(decode_partition_dict(raw, schema), bucket)
            files = DataFileWriter(schema, store=metadata.store, bucket_dir=folder, names=names).write_all([kv])
            entries += [
                ManifestEntry(kind=FileKind.ADD, partition=raw, bucket=bucket, total_buckets=-1, file=f) for f in files
            ]
            index.append(self._hashes(metadata, view.hash_index().get(raw, {}).get(bucket), raw, bucket, part))
        live = {p: {b: e.file_name for b, e in view.hash_index().get(p, {}).items()} for p in partitions}
        self._commits += 1
        commit_changes(
            metadata,
            CommitRequest(
                commit_user=f"batch-{self._commits}",
                changes=TableChanges(append=tuple(entries), append_index=tuple(index)),
                base_snapshot_id=snapshot.id if snapshot else None,
                assigned_on=live,
                by_partition=True,
            ),
        )
        for p, k, v in rows:
            if v is None:
                self.rows.pop((p, k), None)
            else:
                self.rows[(p, k)] = v

    def _hashes(
        self, metadata: TableMetadata, old: IndexEntry | None, partition: bytes, bucket: int, rows: pa.Table
    ) -> IndexEntry:
        hashes = set(hash_columns([rows.column("k")], metadata.latest_schema().key_types).tolist())
        if old is not None:
            path = metadata.paths.index_path(old.file_name)
            hashes |= set(np.asarray(decode_hash_index(metadata.store.get(path), path)).tolist())
        data = encode_hash_index(np.array(sorted(hashes), np.int32))
        name = NewFileNames().index_name()
        metadata.store.put(metadata.paths.index_path(name), data)
        return IndexEntry(kind=FileKind.ADD, partition=partition, bucket=bucket, index_type=HASH_INDEX, file_name=name,
                          file_size=len(data), row_count=len(hashes))  # fmt: skip

    def resize(
        self, target_bytes: int, *, metadata: TableMetadata | None = None, runner: Runner | None = None
    ) -> ResizeReport:
        """Split and merge; no row changes."""
        return run_ring_resize(
            metadata or self.metadata,
            runner or LocalRunner(1),
            index_dir=self.index_dir,
            target_bytes=target_bytes,
            sleep=lambda _: None,
        )

    def content(self) -> dict[tuple[int, str], str]:
        """What a scan gives; AssertionError for a key that comes twice."""
        rows = [r for part in Table.open(self.handle.uri).scan().batches() for r in part.to_pylist()]
        out = {(r["p"], r["k"]): r["v"] for r in rows}
        assert len(out) == len(rows), "a key comes twice"
        return out

    def buckets(self, p: int) -> dict[int, list[str]]:
        """Keys that stand in the files of each bucket of a partition."""
        metadata = self.metadata
        schema = metadata.latest_schema()
        out: dict[int, list[str]] = {}
        for entry in load_view(metadata, metadata.latest_snapshot()).entries:
            values = decode_partition_dict(entry.partition, schema)
            if values["p"] == p:
                path = metadata.paths.data_file(values, entry.bucket, entry.file.file_name)
                keys = pq.read_table(path, columns=["k"], partitioning=None).column(0).to_pylist()
                out.setdefault(entry.bucket, []).extend(keys)
        return out

    def check(self) -> None:
        """The model's rows; every key in the bucket its ring says; each hash index has exactly its bucket's keys or more."""
        assert self.content() == self.rows
        metadata = self.metadata
        schema, snapshot = metadata.latest_schema(), metadata.latest_snapshot()
        context = make_tag_context(metadata, snapshot, index_dir=self.index_dir)
        view = load_view(metadata, snapshot)
        for raw in {e.partition for e in view.entries}:
            p = decode_partition_dict(raw, schema)["p"]
            for bucket, keys in self.buckets(p).items():
                table = pa.table({"k": pa.array(keys, pa.string())})
                batch = key_batch(table, schema, ((raw,), np.zeros(len(keys), np.int32)))
                assert set(BucketKeyIndex().place_inserts(batch, context).tolist()) == {bucket}
                entry = view.hash_index()[raw][bucket]
                path = metadata.paths.index_path(entry.file_name)
                assert set(batch.hashes.tolist()) <= set(
                    np.asarray(decode_hash_index(metadata.store.get(path), path)).tolist()
                )
