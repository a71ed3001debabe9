"""Containers that lakeidx wrote, checksums included, used by the released Java Paimon to find rows.

An append table written by Java keeps its data files; the indexes beside them, or in its manifest, are exchanged for
lakeidx's.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.file_index.container import FileIndexContainer
from lakeidx.file_index.write import INDEX_SUFFIX, index_builder
from lakeidx.format.manifest import decode_manifest, encode_manifest
from lakeidx.format.schema.schema_file import decode_schema
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate import Predicate, filter_table
from lakeidx.predicate.parse import parse_where
from lakeidx.types import to_arrow_schema
from tests.conftest import GOLDEN
from tests.interop.hand_made import oracle

pytestmark = pytest.mark.interop

CASE = GOLDEN / "tables" / "file-index-append"


class Copy:
    """A copy of the golden table in a warehouse of its own."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.table = warehouse / "db.db" / "t"
        shutil.copytree(CASE / "table", self.table)
        self.schema: TableSchema = decode_schema((self.table / "schema" / "schema-0").read_bytes(), "schema-0")
        self.files = sorted((self.table / "bucket-0").glob("*.parquet"))

    def rows(self, file: Path) -> pa.Table:
        names = [f.name for f in self.schema.fields]
        return pq.ParquetFile(file).read(columns=names).cast(to_arrow_schema(self.schema.fields))

    def container(self, rows: pa.Table) -> bytes:
        builder = index_builder(self.schema)
        assert builder is not None
        writer = builder()
        writer.add(rows)
        parts = writer.finish()
        made = parts.embedded or parts.side_files[0][1]
        assert all(e.checksum is not None for e in FileIndexContainer.from_bytes(made).entries)
        return made

    def embed(self) -> None:
        """Move the indexes into the manifests."""
        for path in (self.table / "manifest").glob("manifest-*"):
            if "list" in path.name:
                continue
            entries = []
            for entry in decode_manifest(path.read_bytes(), path.name):
                container = self.container(self.rows(self.table / "bucket-0" / entry.file.file_name))
                entries.append(replace(entry, file=replace(entry.file, extra_files=(), embedded_index=container)))
            path.write_bytes(encode_manifest(entries))

    def expect(self, pred: Predicate) -> int:
        return sum(filter_table(pred, self.rows(f)).num_rows for f in self.files)


def test_java_reads_index_files_with_checksums(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    for file in copy.files:
        file.with_name(file.name + INDEX_SUFFIX).write_bytes(copy.container(copy.rows(file)))
    for field in ("a", "b", "c"):
        value = next(v for v in copy.rows(copy.files[1]).column(field).to_pylist() if v is not None)
        text = value if isinstance(value, str) else str(value)
        literal = "'" + text.replace("'", "''") + "'"
        _, *found = oracle("find", tmp_path, field, text)
        assert len(found) == copy.expect(parse_where(f"{field} = {literal}", copy.schema.fields)) > 0


def test_java_uses_them(tmp_path: Path) -> None:
    """An index over other values hides the rows: proof that Java decides by what lakeidx wrote."""
    copy = Copy(tmp_path)
    value = next(v for v in copy.rows(copy.files[1]).column("c").to_pylist() if v is not None)
    for file in copy.files:
        rows = copy.rows(file)
        other = rows.set_column(rows.column_names.index("c"), "c", pa.nulls(rows.num_rows, pa.int64()))
        file.with_name(file.name + INDEX_SUFFIX).write_bytes(copy.container(other))
    _, *found = oracle("find", tmp_path, "c", str(value))
    assert found == []


def test_java_prunes_files_by_embedded_indexes(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    copy.embed()
    pred_of = {
        v: parse_where(f"c = {v}", copy.schema.fields) for v in copy.rows(copy.files[0]).column("c").to_pylist() if v
    }
    value, pred = next(iter(pred_of.items()))
    holding = sum(filter_table(pred, copy.rows(f)).num_rows > 0 for f in copy.files)
    plan, *found = oracle("find", tmp_path, "c", str(value))
    assert plan["files"] == holding < len(copy.files)
    assert len(found) == copy.expect(pred)
