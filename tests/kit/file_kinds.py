"""One small file of every kind that lakeidx reads, and what reads it: batches, scans, lookups, expiry, `lakeidx inspect`."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import zstandard

import lakeidx
from lakeidx.api.inspect.files import inspect_file
from lakeidx.batch.artifacts import (
    BatchFiles,
    BucketAssignmentReport,
    CommitReport,
    IndexWriteReport,
    IngestReport,
    SourceFile,
)
from lakeidx.batch.assignment.keyed_batch import read_located
from lakeidx.batch.landed_files import committed_by, mark_committed
from lakeidx.batch.moved_rows import read_moves, write_moves
from lakeidx.batch.parts import read_part
from lakeidx.batch.target_files import read_part_targets, share_path, write_numbers
from lakeidx.codec.values import arrow_to_internal
from lakeidx.errors import LakeIdxError
from lakeidx.format.schema.schema_file import new_schema
from lakeidx.key_index.bloom.bloom_index import decode_cache
from lakeidx.key_index.bucket.consistent_hashing import decode_metadata, encode_metadata, initial_metadata
from lakeidx.key_index.hbase.client import location_of
from lakeidx.key_index.hbase.rows import COLUMNS
from lakeidx.key_index.hudi_table.table import find_record_keys
from lakeidx.key_index.hudi_table.timeline import latest_base_files, open_hudi_table
from lakeidx.key_index.options import IndexOptions
from lakeidx.landing.cast_rows import cast_piece
from lakeidx.landing.read import LandingOptions, read_landing
from lakeidx.pipeline_file.model import load_pipeline
from lakeidx.pipeline_file.partitions import (
    CurrentBatch,
    current_batch,
    set_current_batch,
)
from lakeidx.storage import LocalStore
from lakeidx.table.commit.changes import decode_changes
from lakeidx.table.expiration.changelog import read_changelogs
from lakeidx.table.expiration.read import read_consumers
from lakeidx.table.index_files import read_hash_index
from tests.conftest import GOLDEN

Read = Callable[[Path], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and what reads it where it lies: the answer is comparable."""

    file: Path
    read: Read


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    make      lays a small one down, in a folder of its own
    unsealed  what in it may be another value without anybody noticing, as it has neither checksum nor second count; None: any
              change is noticed, or changes no answer
    """

    make: Callable[[Path], Case]
    unsealed: str | None = None


_FIELDS = [{"name": "k", "type": "INT"}, {"name": "s", "type": "STRING"}]
_LANDING_FIELDS = [
    *_FIELDS,
    {"name": "d", "type": "DECIMAL(20, 2)"},
    {"name": "l", "type": {"type": "ARRAY", "element": "INT"}},
]
_INDEXES = {
    "file-index.bloom-filter.columns": "s",
    "file-index.bloom-filter.s.items": "20",
    "file-index.bitmap.columns": "s",
    "file-index.bsi.columns": "k",
    "file-index.range-bitmap.columns": "k",
    "file-index.in-manifest-threshold": "1 b",
}


def _table(folder: Path, **options: str) -> lakeidx.Table:
    return lakeidx.Table.create(
        f"{folder}/wh/d.db/t", {"fields": _FIELDS, "primaryKeys": ["k"], "options": {"bucket": "-1", **options}}
    )


def _rows(*keys: int, value: str = "x") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "s": [f"{value}{k % 4}" for k in keys]})


def _upserted(folder: Path, **options: str) -> lakeidx.Table:
    table = _table(folder, **options)
    table.upsert(_rows(*range(8)), batch_id="b1")
    return table


def _content(folder: Path, **state: Any) -> list[dict[str, Any]]:
    """Rows of the table as another process would read them."""
    rows = lakeidx.Table.open(f"{folder}/wh/d.db/t").scan(**state).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["k"])


def _inspected(file: Path) -> dict[str, Any]:
    return inspect_file(str(file), store=LocalStore(str(file.parent)))


def _one(folder: Path, pattern: str) -> Path:
    return next(f for f in sorted(folder.rglob(pattern)) if f.is_file())


def _both(file: Path, answer: Callable[[], Any]) -> Case:
    """`lakeidx inspect` and the program that uses the file; the answer is that of the program."""

    def read(path: Path) -> Any:
        try:
            _inspected(path)
        except LakeIdxError as error:
            found = error
        else:
            return answer()
        answer()
        raise found

    return Case(file, read)


def _in_table(folder: Path, pattern: str, **options: str) -> Case:
    _upserted(folder, **options)
    return _both(_one(folder / "wh/d.db/t", pattern), lambda: _content(folder))


def _file_index(folder: Path) -> Case:
    _upserted(folder, **_INDEXES)
    file = _one(folder / "wh/d.db/t", "data-*.index")
    return _both(file, lambda: _content(folder, where="s = 'x1' AND k >= 3"))


def _tag(folder: Path) -> Case:
    _upserted(folder).create_tag("good")
    return _both(folder / "wh/d.db/t/tag/tag-good", lambda: (_content(folder, tag="good"), _listed_tags(folder)))


def _listed_tags(folder: Path) -> list[Mapping[str, Any]]:
    return list(lakeidx.Table.open(f"{folder}/wh/d.db/t").tags())


def _consumer(folder: Path) -> Case:
    metadata = _upserted(folder).metadata
    file = folder / "wh/d.db/t/consumer/consumer-c"
    file.parent.mkdir()
    file.write_text('{"nextSnapshot": 2}')
    return _both(file, lambda: {name: next_id for name, (next_id, _) in read_consumers(metadata).items()})


def _hint(folder: Path, name: str) -> Case:
    table = _upserted(folder)
    table.upsert(_rows(1, value="y"))
    if name == "EARLIEST":
        table.expire(retain_min=1, retain_max=1)
    return Case(folder / "wh/d.db/t/snapshot" / name, lambda _: (_content(folder), _snapshot_ids(folder)))


def _snapshot_ids(folder: Path) -> list[int]:
    table = lakeidx.Table.open(f"{folder}/wh/d.db/t")
    return [row["id"] for row in table.snapshots()]


def _hashes(folder: Path, pattern: str) -> Case:
    table = _upserted(folder)

    def read() -> Any:
        opened = lakeidx.Table.open(table.uri)
        snapshot = opened.metadata.latest_snapshot()
        assert snapshot is not None
        entries = opened.metadata.load_index_manifest(snapshot.index_manifest)
        return [read_hash_index(opened.metadata, opened.schema, e).tolist() for e in entries]

    return _both(_one(folder / "wh/d.db/t", pattern), read)


def _changelog_file(folder: Path) -> Case:
    table = _upserted(folder, **{"changelog-producer": "input"})

    def read() -> Any:
        changes = lakeidx.Table.open(table.uri).changes(0).to_arrow().to_pylist()
        return sorted(changes, key=lambda row: row["k"])

    return _both(_one(folder / "wh/d.db/t", "changelog-*.parquet"), read)


def _long_lived_changelog(folder: Path) -> Case:
    table = _upserted(folder, **{"changelog-producer": "input", "changelog.num-retained.max": "10"})
    table.upsert(_rows(1, value="y"))
    table.expire(retain_min=1, retain_max=1)
    return _both(folder / "wh/d.db/t/changelog/changelog-1", lambda: read_changelogs(table.metadata))


def _statistics(folder: Path) -> Case:
    file = folder / "stat-0b2ef5ab-ad0b-4ab1-b6a9-7e2bcf1b1f1e-0"
    columns = {"k": {"colId": 0, "distinctCount": 8, "min": "0", "max": "7", "nullCount": 0, "avgLen": 4, "maxLen": 4}}
    file.write_text(
        json.dumps(
            {"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 8, "mergedRecordSize": 90, "colStats": columns}
        )
    )
    return Case(file, _inspected)


def _lookup(folder: Path, pattern: str, **options: str) -> Case:
    table = _upserted(folder, **options)
    table.build_lookup_store()
    asked = pa.table({"k": pa.array([1, 5, 99], pa.int32())})
    file = _one(folder / "wh/d.db/t", pattern)
    return _both(file, lambda: lakeidx.Table.open(table.uri).lookup(asked).to_pylist())


def _golden_table(folder: Path, name: str, pattern: str) -> Case:
    shutil.copytree(GOLDEN / "tables" / name / "table", folder / "table")
    # The same one in each checkout: times of files are those of the checkout.
    files = sorted((folder / "table").rglob(pattern), key=lambda f: (-f.stat().st_size, f.name))
    return _both(
        next(f for f in files if f.stat().st_size > 1),
        lambda: lakeidx.Table.open(str(folder / "table")).scan().to_arrow().to_pylist(),
    )


def _golden_data_file(folder: Path, name: str, pattern: str) -> Case:
    """A data file of a table that was opened and planned before; the file is read anew each time."""
    case = _golden_table(folder, name, pattern)
    scan = lakeidx.Table.open(str(folder / "table")).scan()
    # Not as Python's values: a damaged time may be one that Python has none for, and is a value all the same.
    return _both(case.file, lambda: scan.to_arrow().combine_chunks())


_HUDI_TABLE = GOLDEN / "hudi-tables/v8_dynamic_ordered_partitioned"
#: Checksums of Hadoop's file system, which nothing reads, but each listing meets.
_HADOOPS = shutil.ignore_patterns(".*.crc")


def _landing(folder: Path, ending: str) -> Case:
    file = folder / f"rows.{ending}"
    lines = [{"k": i, "s": f"v{i % 4}", "d": f"{i}.25", "l": [i, None]} for i in range(12)]
    flat = pa.Table.from_pylist([{"k": r["k"], "s": r["s"]} for r in lines])
    if ending == "parquet":
        pq.write_table(flat, file, write_page_checksum=True)
    elif ending == "arrow":
        feather.write_feather(flat, str(file), compression="zstd")
    else:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        if ending.startswith("csv"):
            text = "k,s,d\n" + "".join(f'{r["k"]},"{r["s"]}, x",{r["d"]}\n' for r in lines)
        pack = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor(write_checksum=True).compress}
        file.write_bytes(pack.get(ending.rpartition(".")[2], bytes)(text.encode()))
    schema = new_schema({"fields": _LANDING_FIELDS, "primaryKeys": ["k"], "options": {"bucket": "-1"}})

    def read(path: Path) -> Any:
        out: list[Any] = []
        for piece in read_landing(LocalStore(str(folder)), str(path), schema.fields, LandingOptions(ignore_extra=True)):
            kept, rejected = cast_piece(piece, schema.fields, str(path), keys=("k",))
            out += [arrow_to_internal(kept.column(field.name), field.type) for field in schema.fields]
            out.append(len(rejected))
        return out

    return Case(file, read)


def _report(folder: Path, model: Any) -> Case:
    table = _upserted(folder)
    files = BatchFiles(table.store, table.metadata.paths, "b1")
    name = model.model_fields["stage"].default
    return _both(Path(files.root) / f"{name}.json", lambda: files.read(model))


def _staged_part(folder: Path) -> Case:
    table = _upserted(folder)
    ingest = BatchFiles(table.store, table.metadata.paths, "b1").require(IngestReport)
    schema, part = table.schema, ingest.parts[0]
    return Case(Path(part.path), lambda _: read_part(table.store, None, part, schema, schema.field_names).to_pylist())


def _staged_targets(folder: Path) -> Case:
    table = _upserted(folder)
    file = _one(folder / "wh/_lakeidx", "bucket_assignment/*/targets-*")
    part = str(file).replace("-00000.arrow", ".arrow")
    rows = BatchFiles(table.store, table.metadata.paths, "b1").require(IngestReport).parts[0].rows
    return _both(file, lambda: read_part_targets(table.store, part, [0], rows).tolist())


def _staged_moves(folder: Path) -> Case:
    store, directory = LocalStore(str(folder)), str(folder)
    write_numbers(store, directory, 0, np.arange(3, dtype=np.int32))
    write_moves(store, directory, 0, np.array([1, 4], np.int32), np.array([0, 2], np.int32), 0)
    return _both(_one(folder, "moves-*"), lambda: [column.tolist() for column in read_moves(store, directory, 0, [0])])


def _staged_locations(folder: Path) -> Case:
    table = _upserted(folder, **{"index.type": "state"})
    (part,) = BatchFiles(table.store, table.metadata.paths, "b1").require(BucketAssignmentReport).located_paths
    return _both(Path(share_path(part, 0)), lambda: read_located(table.store, [(part, [0], 8)]).bucket.tolist())


def _staged_changes(folder: Path) -> Case:
    _upserted(folder)
    file = _one(folder / "wh/_lakeidx", "index_write/*/changes*")
    return _both(file, lambda: decode_changes(file.read_bytes(), str(file)))


def _pointer(folder: Path) -> Case:
    table = _table(folder)
    set_current_batch(table.store, table.metadata.paths, ["a"], CurrentBatch("b", "partitions"))
    (file,) = (folder / "wh" / "_lakeidx").rglob("a-*")
    return Case(file, lambda _: current_batch(table.store, table.metadata.paths, ["a"]))


def _ledger(folder: Path) -> Case:
    table = _upserted(folder)
    source = SourceFile(path=f"{folder}/rows.csv", size=1, version="1")
    mark_committed(table.store, table.metadata.paths, [source], "b1")
    (file,) = (
        f for f in (folder / "wh" / "_lakeidx").rglob("_committed/*") if f.is_file() and not f.name.startswith("last-")
    )
    return Case(file, lambda _: committed_by(table.store, table.metadata.paths, source))


def _hudi(folder: Path, pattern: str) -> Case:
    shutil.copytree(_HUDI_TABLE, folder / "hudi", ignore=_HADOOPS)
    store, root = LocalStore(str(folder)), str(folder / "hudi")
    for other in ("a b", "us"):
        shutil.rmtree(folder / "hudi" / other)
    file = max((f for f in (folder / "hudi").rglob(pattern) if f.is_file()), key=lambda f: f.name)
    # A task that was tried twice left two files: the commit says which one counts.
    instant = file.name.partition("_")[0]
    for made in (folder / "hudi").rglob(f"[!.]*_{instant}.parquet"):
        shutil.copy(made, made.with_name(made.name.replace(f"_{instant}", f"9_{instant}")))

    def read(_: Path) -> Any:
        return latest_base_files(store, open_hudi_table(store, root))

    return Case(file, read)


def _hudi_base_file(folder: Path) -> Case:
    shutil.copytree(_HUDI_TABLE, folder / "hudi", ignore=_HADOOPS)
    store, root = LocalStore(str(folder)), str(folder / "hudi")
    for other in ("eu", "us"):
        shutil.rmtree(folder / "hudi" / other)
    newest = latest_base_files(store, open_hudi_table(store, root))
    file = min(newest, key=lambda f: f.size)
    keys = pa.array([*pq.read_table(file.path).column("_hoodie_record_key").to_pylist()[:3], "none"])

    def read(_: Path) -> Any:
        found = find_record_keys(
            store, root, keys, partitions=[file.partition], options=IndexOptions({"index.threads": "1"})
        )
        return found.to_table().to_pylist()

    return Case(Path(file.path), read)


def _hbase_cells(folder: Path) -> Case:
    """A row of Hudi's HBase index as the Thrift server hands it out; the file is a dump of its three cells."""
    file = folder / "cells"
    file.write_bytes(b"\n".join((b"20261121104530307", b"39605b4f-e082-439d-a5a9-207062b16c16-0", b"region=eu")))

    def read(path: Path) -> Any:
        values = path.read_bytes().split(b"\n")
        return location_of({c: (v, 1) for c, v in zip(COLUMNS, values, strict=False)}, "localhost:9090")

    return Case(file, read)


def _bloom_cache(folder: Path) -> Case:
    table = _table(folder, **{"index.type": "bloom", "hoodie.bloom.index.use.metadata": "true"})
    table.upsert(_rows(*range(8)))
    table.upsert(_rows(*range(4)))
    file = _one(folder / "wh", "bloom-filters/snapshot-*")
    return Case(file, lambda path: decode_cache(path.read_bytes(), str(path)))


def _rings(folder: Path) -> Case:
    file = folder / "00000000000000.hashing_meta"
    file.write_bytes(encode_metadata(initial_metadata("p=1", 2)))
    return Case(file, lambda path: decode_metadata(path.read_bytes(), str(path)))


def _pipeline(folder: Path) -> Case:
    file = folder / "p.yaml"
    file.write_text(
        """table: d.t
warehouse: /lake
fields:
  - {name: k, type: INT}
  - {name: s, type: STRING}
primaryKeys: [k]
options: {bucket: "-1"}
landing: {path: /in, pattern: "*.csv", format: csv}
partitions: {by: files, key: "([0-9]+)"}
"""
    )
    return Case(file, load_pipeline)


_TEXT = "text without a checksum"
_AVRO = "Avro has no checksum"

KINDS: Mapping[str, FileKind] = {
    "landing csv": FileKind(lambda f: _landing(f, "csv"), _TEXT),
    "landing jsonl": FileKind(lambda f: _landing(f, "jsonl"), _TEXT),
    "landing parquet": FileKind(lambda f: _landing(f, "parquet"), "the footer has no checksum"),
    "landing arrow": FileKind(lambda f: _landing(f, "arrow"), "Arrow has no checksum"),
    "landing csv.gz": FileKind(lambda f: _landing(f, "csv.gz")),
    "landing jsonl.zst": FileKind(lambda f: _landing(f, "jsonl.zst")),
    "pipeline file": FileKind(_pipeline, _TEXT),
    "schema": FileKind(lambda f: _in_table(f, "schema-0")),
    "snapshot": FileKind(lambda f: _in_table(f, "snapshot-1")),
    "hint LATEST": FileKind(lambda f: _hint(f, "LATEST")),
    "hint EARLIEST": FileKind(lambda f: _hint(f, "EARLIEST")),
    "manifest list": FileKind(lambda f: _in_table(f, "manifest-list-*-0")),
    "manifest list of changes": FileKind(lambda f: _in_table(f, "manifest-list-*-1")),
    "manifest": FileKind(lambda f: _in_table(f, "manifest-????????-*-0")),
    "index manifest": FileKind(lambda f: _hashes(f, "index-manifest-*")),
    "hash index": FileKind(lambda f: _hashes(f, "index/index-*")),
    "tag": FileKind(_tag, _TEXT),
    "consumer": FileKind(_consumer, _TEXT),
    "data file": FileKind(lambda f: _in_table(f, "data-*.parquet")),
    "changelog file": FileKind(_changelog_file),
    "long-lived changelog": FileKind(_long_lived_changelog, _TEXT),
    "statistics": FileKind(_statistics, _TEXT),
    "file indexes": FileKind(_file_index),
    "lookup listing": FileKind(lambda f: _lookup(f, "listing.json")),
    "lookup file, sorted": FileKind(lambda f: _lookup(f, "*.lookup", **{"lookup.store.type": "sort"})),
    "lookup file, hashed": FileKind(lambda f: _lookup(f, "*.lookup", **{"lookup.store.type": "hash"})),
    "lookup file of positions": FileKind(lambda f: _lookup(f, "*.lookup", **{"lookup.store.values": "position"})),
    "lookup file of keys": FileKind(lambda f: _lookup(f, "*.lookup", **{"lookup.store.values": "key"})),
    "deletion vectors": FileKind(lambda f: _golden_table(f, "dv-fixed", "index/index-*")),
    "deletion vectors of 64 bits": FileKind(lambda f: _golden_table(f, "dv-bitmap64", "index/index-*")),
    "parquet data file of Java": FileKind(lambda f: _golden_data_file(f, "sequence-field", "data-*.parquet")),
    "orc data file": FileKind(lambda f: _golden_data_file(f, "format-orc", "data-*.orc"), "ORC has no checksum"),
    "avro data file": FileKind(lambda f: _golden_data_file(f, "format-avro", "data-*.avro"), _AVRO),
    "ingest report": FileKind(lambda f: _report(f, IngestReport)),
    "assignment report": FileKind(lambda f: _report(f, BucketAssignmentReport)),
    "write report": FileKind(lambda f: _report(f, IndexWriteReport)),
    "commit report": FileKind(lambda f: _report(f, CommitReport)),
    "staged part": FileKind(_staged_part),
    "staged targets": FileKind(_staged_targets),
    "staged moves": FileKind(_staged_moves),
    "staged locations": FileKind(_staged_locations),
    "staged changes": FileKind(_staged_changes),
    "batch pointer": FileKind(_pointer),
    "committed file": FileKind(_ledger),
    "hudi properties": FileKind(lambda f: _hudi(f, "hoodie.properties"), _TEXT),
    "hudi commit": FileKind(lambda f: _hudi(f, "*.commit"), _AVRO),
    "hudi base file": FileKind(_hudi_base_file, "the footer has no checksum"),
    "hbase cells": FileKind(_hbase_cells, _TEXT),
    "bloom filter cache": FileKind(_bloom_cache),
    "hashing ring": FileKind(_rings, _TEXT),
}
