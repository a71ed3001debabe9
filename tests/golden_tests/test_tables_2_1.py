"""Tables of what Paimon 2.x added, as its Java wrote and read them: read alike, or refused with the reason and left alone."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro._read_py
import pyarrow as pa
import pytest
import zstandard

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.errors import UnsupportedError
from lakeidx.format.index_manifest import decode_index_manifest, encode_index_manifest
from lakeidx.format.manifest import decode_manifest, encode_manifest
from lakeidx.format.snapshot import decode_snapshot, encode_snapshot
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.tasks.runner import LocalRunner
from tests.conftest import GOLDEN
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.golden

TABLES = GOLDEN / "tables-2.1"
#: Case -> option that the refusal names.
UNREADABLE = {
    "data-evolution": "data-evolution.enabled",
    "snapshot-ordering": "sequence.snapshot-ordering",
    "clustering": "pk-clustering-override",
}
UNWRITABLE = {
    **UNREADABLE,
    "row-tracking": "row-tracking.enabled",
    "pk-btree": "pk-btree.index.columns",
    "pk-bitmap": "pk-bitmap.index.columns",
    "postpone": "bucket",
}
WRITABLE = ("nullable-keys", "merge-on-read", "max-buckets", "level-1-picks")
READABLE = (*WRITABLE, "row-tracking", "pk-btree", "pk-bitmap", "postpone")
Rows = list[tuple[Any, ...]]


def _expected(case: str, snapshot_id: int) -> Rows:
    lines = (TABLES / case / f"expect-{snapshot_id}.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted(((r["p"], r["k"], r["v"], r["n"]) for r in map(json.loads, lines)), key=str)


def _content(table: Table, **state: Any) -> Rows:
    return sorted(((r["p"], r["k"], r["v"], r["n"]) for r in table.scan(**state).to_arrow().to_pylist()), key=str)


def _copy(case: str, folder: Path) -> Table:
    place = folder / "wh" / "d.db" / "t"
    shutil.copytree(TABLES / case / "table", place)
    return Table.open(str(place))


def _files(table: Table) -> dict[str, bytes]:
    root = Path(table.uri)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def _upsert(table: Table, rows: Rows) -> None:
    p, k, v, n = zip(*rows, strict=True)
    batch = pa.table({"p": pa.array(p, pa.int32()), "k": pa.array(k, pa.int64()), "v": v, "n": pa.array(n, pa.int32())})
    upsert_table(make_context(table.metadata, "b1", runner=LocalRunner(1)), batch)


def test_every_case_is_tested() -> None:
    assert {p.name for p in TABLES.iterdir()} == {*READABLE, *UNREADABLE}


@pytest.mark.parametrize("case", READABLE)
def test_every_snapshot_is_read_as_java_reads_it(case: str, tmp_path: Path) -> None:
    table = _copy(case, tmp_path)
    ids = json.loads((TABLES / case / "case.json").read_text(encoding="utf-8"))["snapshots"]
    for snapshot_id in ids:
        assert _content(table, snapshot=snapshot_id) == _expected(case, snapshot_id), snapshot_id
    assert _content(table) == _expected(case, ids[-1])


@pytest.mark.parametrize(("case", "option"), UNREADABLE.items())
def test_what_would_be_read_wrongly_is_refused(case: str, option: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"reading is refused: {option}"):
        _copy(case, tmp_path).scan()


@pytest.mark.parametrize(("case", "option"), UNWRITABLE.items())
def test_what_would_be_written_wrongly_is_refused_and_left_alone(case: str, option: str, tmp_path: Path) -> None:
    table = _copy(case, tmp_path)
    before = _files(table)
    with pytest.raises(UnsupportedError, match=option):
        _upsert(table, [(1, 100, "new", 1)])
    with pytest.raises(UnsupportedError, match=option):
        run_compaction(table.metadata, LocalRunner(1), full=True)
    assert _files(table) == before


@pytest.mark.parametrize("case", WRITABLE)
def test_lakeidx_continues(case: str, tmp_path: Path) -> None:
    table = _copy(case, tmp_path)
    newest = _content(table)
    _upsert(table, [(1, 3, "other", 1), (1, 100, "new", 1)])
    other = [(r[0], r[1]) == (1, 3) for r in newest]
    wanted = sorted(
        [r for r, o in zip(newest, other, strict=True) if not o] + [(1, 3, "other", 1), (1, 100, "new", 1)], key=str
    )
    table = Table.open(table.uri)
    assert _content(table) == wanted
    run_compaction(table.metadata, LocalRunner(1), full=True)
    assert _content(Table.open(table.uri)) == wanted


def test_the_limit_of_buckets_is_one_per_partition(tmp_path: Path) -> None:
    """2.1 counts per partition (paimon#9193), where 1.4.2 counted per task: each of four partitions has its two buckets."""
    table = _copy("max-buckets", tmp_path)
    _upsert(table, [(p, k, "more", 1) for p in range(5) for k in range(20, 30)])
    root = Path(table.uri)
    buckets = {d.name: sorted(b.name for b in d.glob("bucket-*")) for d in root.glob("p=*")}
    assert buckets == {f"p={p}": ["bucket-0", "bucket-1"] for p in range(5)}


def _unzstd(decoder: Any) -> io.BytesIO:
    """fastavro wants another zstd package than the one that is there."""
    return io.BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(decoder.read_bytes()))


def _records(data: bytes) -> list[Any]:
    """All fields of all records, by their writer's schema."""
    with mock.patch.dict(fastavro._read_py.BLOCK_READERS, {"zstandard": _unzstd}):
        return list(fastavro._read_py.reader(io.BytesIO(data)))


#: Kind of file -> where such files lie, and the product's reader and writer one after the other.
REWRITTEN: dict[str, tuple[str, Callable[[bytes], bytes], Callable[[bytes], Any]]] = {
    "manifest": ("manifest/manifest-????????-*", lambda d: encode_manifest(decode_manifest(d, "f")), _records),
    "index manifest": (
        "manifest/index-manifest-*",
        lambda d: encode_index_manifest(decode_index_manifest(d, "f")),
        _records,
    ),
    "snapshot": ("snapshot/snapshot-*", lambda d: encode_snapshot(decode_snapshot(d, "f")), json.loads),
}


@pytest.mark.parametrize("kind", REWRITTEN)
def test_fields_that_2_x_added_survive_a_rewrite(kind: str) -> None:
    pattern, rewrite, parse = REWRITTEN[kind]
    files = sorted(f for case in TABLES.iterdir() for f in (case / "table").glob(pattern))
    assert len(files) > 2
    for file in files:
        data = file.read_bytes()
        before, after = parse(data), parse(rewrite(data))
        if kind == "snapshot":
            assert after == before, file
        else:
            assert [_without_nulls(r) for r in after] == [_without_nulls(r) for r in before], file


def _without_nulls(value: Any) -> Any:
    """A field that a writer leaves out is the same as one that is null."""
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value
