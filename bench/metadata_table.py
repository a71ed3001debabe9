"""A table that is all metadata: manifests of as many data files as asked for, and no data file.

Sixteen columns with statistics of each, one HASH index file per bucket, ten data files per bucket. Each manifest holds files of
all partitions, as the manifests of batches do that touch everything: no manifest can be pruned by its partition range.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lakeidx.api.table import Table
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.format.data_file import DataFileMeta, FileSource, SimpleStats
from lakeidx.format.file_names import NewFileNames
from lakeidx.format.index_manifest import IndexEntry, encode_index_manifest
from lakeidx.format.manifest import FileKind, ManifestEntry, encode_manifest
from lakeidx.format.manifest_list import ManifestFileMeta, encode_manifest_list
from lakeidx.format.schema.schema_file import TableSchema, encode_schema
from lakeidx.format.snapshot import CommitKind, Snapshot, encode_snapshot
from lakeidx.table.view import HASH_INDEX

FILES_PER_BUCKET = 10
BUCKETS_PER_PARTITION = 10
#: Files at level 0: two in most buckets, six in every hundredth, which a compaction then has to pick.
FRESH, FRESH_WHEN_DUE, DUE_EVERY = 2, 6, 100
FILES_PER_MANIFEST = 50_000
ROWS_PER_FILE = 100_000
TYPES = ("BIGINT",) * 6 + ("INT",) * 3 + ("DOUBLE",) * 3 + ("STRING",) * 2
SPEC: dict[str, Any] = {
    "fields": [
        {"name": "p", "type": "INT NOT NULL"},
        {"name": "k", "type": "BIGINT NOT NULL"},
        *({"name": f"c{i}", "type": t} for i, t in enumerate(TYPES)),
    ],
    "primaryKeys": ["p", "k"],
    "partitionKeys": ["p"],
    "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "1000000"},
}


def partition_bytes(number: int, schema: TableSchema) -> bytes:
    """Partition `p = number` as manifests hold it."""
    return with_arity(encode_row([number], schema.partition_types), 1)


def make_metadata(folder: Path, files: int) -> str:
    """Make the table in a folder, unless it is there already; gives its place.

    files   a multiple of `FILES_PER_BUCKET` * `BUCKETS_PER_PARTITION`
    """
    uri = f"{folder}/wh/b.db/files_{files}"
    if Path(uri, "snapshot", "LATEST").exists():
        return uri
    shutil.rmtree(uri, ignore_errors=True)
    table = Table.create(uri, SPEC)
    schema, names = table.schema, NewFileNames()
    random = np.random.default_rng(13)
    order = random.permutation(files)
    metas = []
    for start in range(0, files, FILES_PER_MANIFEST):
        part = order[start : start + FILES_PER_MANIFEST]
        data = encode_manifest(_entries(part, schema, random))
        name = names.manifest_name()
        table.store.put(table.paths.manifest_path(name), data)
        metas.append(_described(name, len(data), part, schema))
    base, delta = names.manifest_list_name(), names.manifest_list_name()
    lists = {base: encode_manifest_list(metas), delta: encode_manifest_list([])}
    index = names.index_manifest_name()
    lists[index] = encode_index_manifest(_index(files // FILES_PER_BUCKET, schema))
    for name, data in lists.items():
        table.store.put(table.paths.manifest_path(name), data)
    snapshot = Snapshot(
        uuid=str(uuid.uuid4()), id=1, schema_id=0, base_manifest_list=base, base_manifest_list_size=len(lists[base]),
        delta_manifest_list=delta, delta_manifest_list_size=len(lists[delta]), index_manifest=index,
        commit_user="bench", commit_identifier=1, commit_kind=CommitKind.APPEND, time_millis=1_700_000_000_000,
        total_record_count=files * ROWS_PER_FILE, delta_record_count=files * ROWS_PER_FILE, next_row_id=0,
    )  # fmt: skip
    table.store.put(table.paths.snapshot_path(1), encode_snapshot(snapshot))
    table.store.put(table.paths.earliest, b"1")
    table.store.put(table.paths.latest, b"1")
    return uri


def linked_copy(uri: str, folder: Path, **options: str) -> str:
    """Copy a table as hard links, with more options in its schema."""
    copy = f"{folder}/wh/b.db/copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(uri, copy, copy_function=os.link)
    table = Table.open(uri)
    schema = replace(
        table.schema, options={**table.schema.options, **{k.replace("_", "-"): v for k, v in options.items()}}
    )
    path = Path(copy, "schema", "schema-0")
    path.unlink()
    path.write_bytes(encode_schema(schema))
    return copy


def entry_of(number: int, stats: npt.NDArray[np.int64], schema: TableSchema) -> ManifestEntry:
    """Return the entry of one file.

    stats   int64[2, 16]: minima and maxima as 8-byte slots of a row
    """
    bucket, at = divmod(number, FILES_PER_BUCKET)
    fresh = FRESH_WHEN_DUE if bucket % DUE_EVERY == 0 else FRESH
    level = 0 if at < fresh else 5
    low, high = at * 1_000_000, at * 1_000_000 + 999_999
    # All columns have a value, so a row is its header, the slots and nothing else.
    head = struct.pack(">i", 16) + bytes(8)
    low_key, high_key = (with_arity(encode_row([k], schema.key_types), 1) for k in (low, high))
    file = DataFileMeta(
        file_name=f"data-{uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128))}-{at}.parquet",
        file_size=5_000_000 + number % 1_000_003 if level == 0 else 120_000_000 + number % 10_000_019,
        row_count=ROWS_PER_FILE,
        min_key=low_key,
        max_key=high_key,
        key_stats=SimpleStats(low_key, high_key, (0,)),
        value_stats=SimpleStats(head + stats[0].tobytes(), head + stats[1].tobytes(), (0,) * 16),
        min_sequence_number=(FILES_PER_BUCKET - at) * ROWS_PER_FILE,
        max_sequence_number=(FILES_PER_BUCKET - at) * ROWS_PER_FILE + ROWS_PER_FILE - 1,
        schema_id=0,
        level=level,
        creation_time_ms=1_700_000_000_000 + number,
        delete_row_count=0,
        file_source=int(FileSource.APPEND if level == 0 else FileSource.COMPACT),
    )
    partition = partition_bytes(bucket // BUCKETS_PER_PARTITION, schema)
    return ManifestEntry(
        kind=FileKind.ADD, partition=partition, bucket=bucket % BUCKETS_PER_PARTITION, total_buckets=-1, file=file
    )


def random_stats(n: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the slots of minima and maxima of 16 columns, int64[n, 2, 16]: numbers below a million, texts of seven letters."""
    out = random.integers(0, 1_000_000, (n, 2, 16), dtype=np.int64)
    out[:, :, 14:] = random.integers(0, 1 << 56, (n, 2, 2), dtype=np.int64) & 0x1F1F1F1F1F1F1F | 0x6060606060606060
    out[:, :, 14:] |= np.int64(-121) << 56
    return out


def _entries(numbers: npt.NDArray[Any], schema: TableSchema, random: np.random.Generator) -> list[ManifestEntry]:
    stats = random_stats(len(numbers), random)
    return [entry_of(int(n), s, schema) for n, s in zip(numbers, stats, strict=True)]


def _described(name: str, size: int, numbers: npt.NDArray[Any], schema: TableSchema) -> ManifestFileMeta:
    partitions = numbers // FILES_PER_BUCKET // BUCKETS_PER_PARTITION
    low, high = (partition_bytes(int(p), schema) for p in (partitions.min(), partitions.max()))
    return ManifestFileMeta(
        file_name=name, file_size=size, num_added_files=len(numbers), num_deleted_files=0,
        partition_stats=SimpleStats(low, high, (0,)), schema_id=0, min_bucket=0,
        max_bucket=BUCKETS_PER_PARTITION - 1, min_level=0, max_level=5,
    )  # fmt: skip


def _index(buckets: int, schema: TableSchema) -> list[IndexEntry]:
    return [
        IndexEntry(
            kind=FileKind.ADD,
            partition=partition_bytes(b // BUCKETS_PER_PARTITION, schema),
            bucket=b % BUCKETS_PER_PARTITION,
            index_type=HASH_INDEX,
            file_name=f"index-{uuid.UUID(int=b)}-0",
            file_size=4 * ROWS_PER_FILE,
            row_count=ROWS_PER_FILE,
        )
        for b in range(buckets)
    ]
