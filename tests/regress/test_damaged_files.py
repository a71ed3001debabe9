"""Files that are damaged: each is found, and named, and none takes memory or the process."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx.api.table import Table
from lakeidx.cli.main import app
from lakeidx.codec.containers.avro import MAGIC, SYNC_SIZE
from lakeidx.codec.containers.compress import (
    BlockCodec,
    decompress_block,
)
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.format.deletion_vector import decode_vector, encode_deletion_vectors, vector_range
from lakeidx.format.index_manifest import DeletionVectorMeta, encode_index_manifest
from lakeidx.format.snapshot import Snapshot
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import check_files_readable
from lakeidx.table.newest import load_newest
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore
from tests.arch.sources import MODULES, ROOT, nodes
from tests.kit.avro_checksum import as_others_write
from tests.kit.share import share_of
from tests.kit.small_tables import SPEC, content, filled_table, upsert

# A hash index file with a wrong hash, or none: `verify` finds it, readers do without it, one command makes the index anew.

ROWS = [(p, k, f"a{k}") for p in (1, 2) for k in range(25)]


def flip(file: Path) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[5] ^= 4
    file.write_bytes(damaged)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4])


DAMAGES = [flip, cut, Path.unlink]


def damaged(folder: Path, damage: Callable[[Path], None]) -> str:
    """Make a table whose hash index files are all damaged; return its path."""
    table = filled_table(folder, ROWS)
    upsert(table, [(1, 3, None), (2, 4, "b4")], ["-D", "+U"])
    for file in Path(table.uri, "index").iterdir():
        damage(file)
    return table.uri


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_batch_that_needs_it_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A key whose hash is another one would get a second bucket; with a flipped bit nothing but the checksum in the name tells."""
    uri = damaged(tmp_path, damage)
    before = set(Path(uri).rglob("data-*"))
    with pytest.raises((CorruptFileError, NotFoundError), match="lakeidx index rebuild TABLE --type hash") as caught:
        upsert(Table.open(uri), [(1, 3, "b")])
    assert "/index/index-" in (caught.value.path or "")
    assert set(Path(uri).rglob("data-*")) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_readers_of_single_keys_do_without_it(
    tmp_path: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    uri = damaged(tmp_path, damage)
    assert content(Table.open(uri), where="p = 2 AND k = 4") == {(2, 4): "b4"}
    keys = [{"p": 1, "k": 2}, {"p": 1, "k": 3}, {"p": 2, "k": 4}]
    found = Table.open(uri).lookup(keys).to_pylist()
    assert [row["v"] for row in found] == ["a2", None, "b4"]
    assert "without its hash index" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_command_makes_it_anew_in_one_commit(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    uri = damaged(tmp_path, damage)
    before = content(Table.open(uri))
    found = {rule.name for rule in Table.open(uri).verify().findings}
    assert found & {"live_keys_indexed", "index_files_agree", "referenced_files_exist"}
    assert Table.open(uri).rebuild_index(index_type="hash", dry_run=True).snapshot_ids == ()
    done = CliRunner().invoke(app, ["index", "rebuild", uri, "--type", "hash", "--no-progress", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["snapshot_ids"] == [3]
    table = Table.open(uri)
    assert table.verify().passed
    assert content(table) == before
    # The deleted key is in a data file still, and has its bucket.
    upsert(table, [(1, 3, "c3"), (1, 99, "c99"), (2, 4, "c4")])
    assert content(Table.open(uri)) == {**before, (1, 3): "c3", (1, 99): "c99", (2, 4): "c4"}
    assert Table.open(uri).verify().passed
    # What is right stays as it is.
    assert table.rebuild_index(index_type="hash").snapshot_ids == ()


def test_a_rebuild_goes_by_partitions_and_drops_the_files_of_empty_buckets(tmp_path: Path) -> None:
    uri = damaged(tmp_path, Path.unlink)
    rebuilt = Table.open(uri).rebuild_index(index_type="hash", partitions=["p=1"])
    assert (rebuilt.files, rebuilt.snapshot_ids) == (4, (3,))
    upsert(Table.open(uri), [(1, 3, "b")])
    with pytest.raises(NotFoundError):
        upsert(Table.open(uri), [(2, 3, "b")])
    Table.open(uri).rebuild_index(index_type="hash")
    table = Table.open(uri)
    table.delete(where="p = 2")
    table.compact(full=True)
    table.rebuild_index(index_type="hash")
    view = load_newest(table.metadata)
    assert {e.partition for e in view.index} == {e.partition for e in view.entries}
    upsert(Table.open(uri), [(2, 1, "z")])
    assert Table.open(uri).verify().passed


def test_a_batch_meanwhile_is_in_the_rebuilt_index(tmp_path: Path) -> None:
    """Its new key is in a bucket whose files had been read."""
    table = filled_table(tmp_path, ROWS, options={"dynamic-bucket.target-row-num": "100"})
    upsert(table, [(1, 3, None)], ["-D"])
    # The index keeps the hash of the deleted key, which no data file has any more: a rebuild has something to do.
    Table.open(table.uri).compact(full=True)
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/snapshot/snapshot-4", act=lambda *_: upsert(Table.open(table.uri), [(1, 77, "x")]))
    opened = Table(store, table.paths)
    rebuilt = opened.rebuild_index(index_type="hash", runner=LocalRunner(1))
    assert (rebuilt.snapshot_ids, rebuilt.rounds) == ((5,), 2)
    assert Table.open(table.uri).verify().passed
    assert content(Table.open(table.uri))[1, 77] == "x"


@pytest.mark.parametrize("options", [{"bucket": "2"}, {"bucket": "-1", "partition": "none"}])
def test_tables_without_a_hash_index_say_so(tmp_path: Path, options: dict[str, str]) -> None:
    spec = {**SPEC, "options": {"bucket": options["bucket"]}}
    if "partition" in options:
        spec["primaryKeys"] = ["k"]
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    with pytest.raises(InvalidInputError, match="has no hash index"):
        table.rebuild_index(index_type="hash")
    with pytest.raises(InvalidInputError, match="takes no columns"):
        table.rebuild_index(index_type="hash", columns=["k"])


# Arrow's objects for column chunks abort the process on some damaged footers; ingest, key readers and inspect used them.

#: Reads the footer of a file that this process has just written, or a sample that a person names on the command line.
_ALLOWED = {"lakeidx/data/stats.py", "lakeidx/maintenance/advise.py"}


def _uses_chunk_objects(code: Sequence[ast.AST]) -> bool:
    """True for ``….row_group(…).column(…)``, also by way of a name for the row group."""
    groups = {
        target.id
        for node in code
        if isinstance(node, ast.Assign) and _is_call(node.value, "row_group")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in code:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "column":
            of = node.func.value
            if _is_call(of, "row_group") or (isinstance(of, ast.Name) and of.id in groups):
                return True
    return False


def _is_call(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name


def test_the_rule_sees_what_it_is_about() -> None:
    """Both ways of writing it."""
    for text in ("m.row_group(0).column(1)", "g = m.row_group(0)\ng.column(1).statistics"):
        assert _uses_chunk_objects(list(ast.walk(ast.parse(text))))
    assert not _uses_chunk_objects(list(ast.walk(ast.parse("m.row_group(0).num_rows; t.column('a')"))))


def test_files_of_others_are_read_without_them() -> None:
    """`lakeidx.data.parquet.chunks` says what footers say of column chunks."""
    found = [
        str(file.relative_to(ROOT))
        for name, file in MODULES.items()
        if name.startswith("lakeidx") and not name.startswith("lakeidx.testing") and _uses_chunk_objects(nodes(file))
    ]
    assert set(found) <= _ALLOWED


# A zstd frame whose damaged header says that it holds terabytes was given as much memory, or ended in MemoryError.

# Magic number; one segment, content size of 8 bytes; the content size; an empty last block.
FRAME = bytes.fromhex("28b52ffd e0") + (1 << 42).to_bytes(8, "little") + bytes.fromhex("010000")


def test_the_expected_size_is_the_limit() -> None:
    with pytest.raises(CorruptFileError, match="holds 4398046511104 bytes, expected 100") as error:
        decompress_block(BlockCodec.ZSTD, memoryview(FRAME), 100, path="x", base=7)
    assert (error.value.path, error.value.offset) == ("x", 7)


# `verification` was green over a data file with flipped bytes: only key columns had been decoded.

_ROWS = 40


def _table(folder: Path, **options: str) -> lakeidx.Table:
    kinds = {"k": "INT", "s": "STRING", "d": "DECIMAL(20, 2)", "f": "DOUBLE", "t": "TIMESTAMP(6)", "n": "BIGINT"}
    columns: dict[str, Any] = {
        "k": list(range(_ROWS)),
        "s": [f"value {i % 7}" for i in range(_ROWS)],
        "d": [Decimal(i) / 100 for i in range(_ROWS)],
        "f": [i / 7 if i % 5 else float("nan") for i in range(_ROWS)],
        "t": [datetime(2024, 1, 1 + i % 28) for i in range(_ROWS)],
        "n": [None if i % 3 else i * 10**12 for i in range(_ROWS)],
        "l": [[i, None] for i in range(_ROWS)],
    }
    fields = [*({"name": n, "type": t} for n, t in kinds.items()),
              {"name": "l", "type": {"type": "ARRAY", "element": "INT"}}]  # fmt: skip
    table = lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}}
    )
    table.upsert(pa.table(columns))
    return table


def _data_file(folder: Path) -> Path:
    (file,) = (folder / "d.db/t").rglob("data-*.parquet")
    return file


def _verdict(table: lakeidx.Table) -> bool:
    return check_files_readable(load_evidence(table.metadata, runner=LocalRunner(1))).passed


def _read(table: lakeidx.Table) -> Any:
    """Rows by a scan and by filters that use statistics and pages; an error as such."""
    try:
        shown = repr(table.scan().to_arrow().to_pylist())
        for where in ("n = 30000000000000", "s = 'value 3'", "d >= 0.35", "k = 17"):
            shown += repr(table.scan(where=where).to_arrow().to_pylist())
        return shown
    except LakeIdxError as error:
        return type(error)


def _flips(folder: Path, change: Callable[[bytearray, int], None], offsets: list[int]) -> list[int]:
    """Offsets at which a change passes the check although it changes what is read."""
    table = _table(folder)
    file = _data_file(folder)
    good, before = file.read_bytes(), _read(table)
    assert _verdict(table)
    silent = []
    for at in offsets:
        data = bytearray(good)
        change(data, at)
        file.write_bytes(data)
        if _verdict(table) and _read(table) != before:
            silent.append(at)
    return silent


def _invert(data: bytearray, at: int) -> None:
    data[at] ^= 0xFF


def _lowest_bit(data: bytearray, at: int) -> None:
    data[at] ^= 1


def test_a_flip_in_a_page_of_any_column_fails(tmp_path: Path) -> None:
    """One byte in the middle of every column chunk: the check fails and names the file."""
    import pyarrow.parquet as pq

    table = _table(tmp_path)
    file = _data_file(tmp_path)
    good = file.read_bytes()
    group = pq.read_metadata(file).row_group(0)
    for i in range(group.num_columns):
        chunk = group.column(i)
        data = bytearray(good)
        data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
        file.write_bytes(data)
        result = check_files_readable(load_evidence(table.metadata, runner=LocalRunner(1)))
        assert not result.passed, chunk.path_in_schema
        assert str(result.sample[0]["file"]).endswith(file.name)


@pytest.mark.slow
def test_every_byte(tmp_path: Path) -> None:
    """No flipped byte that changes an answer passes: all of them, each by one of two changes."""
    _table(tmp_path / "sizing")
    size = _data_file(tmp_path / "sizing").stat().st_size
    draw = random.Random(8)
    change = [draw.choice((_invert, _lowest_bit)) for _ in range(size)]
    assert _flips(tmp_path / "flips", lambda data, at: change[at](data, at), share_of(range(size), 0.15)) == []


# Files of manifests cut at a block, or another one in their place, read as a table with fewer rows: Avro cannot tell.
#
# What lakeidx writes has a checksum; of what others wrote the sizes are compared, and for index manifests what must be in them.


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return filled_table(tmp_path, [(1, k, "row") for k in range(3)])


def newest(table: Table) -> Snapshot:
    snapshot = table.metadata.latest_snapshot()
    assert snapshot is not None
    return snapshot


def without_blocks(data: bytes) -> bytes:
    """Cut an Avro file after its header; its sync marker is the last thing in it."""
    assert data.startswith(MAGIC)
    return data[: data.index(data[-SYNC_SIZE:]) + SYNC_SIZE]


def change(path: str, how: Callable[[bytes], bytes]) -> None:
    Path(path).write_bytes(how(Path(path).read_bytes()))


def check_damaged(table: Table, match: str) -> None:
    with pytest.raises(CorruptFileError, match=match):
        content(Table.open(table.uri))


def test_a_list_cut_after_its_header(table: Table) -> None:
    change(table.paths.manifest_path(newest(table).delta_manifest_list), without_blocks)
    check_damaged(table, r"the file has \d+ bytes, not \d+ as the file that names it says")


def test_another_list_in_its_place(table: Table) -> None:
    snapshot = newest(table)
    wrong = (snapshot.delta_manifest_list.encode(), snapshot.base_manifest_list.encode())
    change(table.paths.snapshot_path(1), lambda data: data.replace(*wrong))
    check_damaged(table, r"the file has \d+ bytes, not \d+ as the file that names it says")


def test_a_manifest_cut_after_its_header(table: Table) -> None:
    (meta,) = table.metadata.data_manifests(newest(table))
    change(table.paths.manifest_path(meta.file_name), without_blocks)
    check_damaged(table, r"the file has \d+ bytes, not \d+ as the file that names it says")


def test_an_index_manifest_cut_after_its_header(table: Table) -> None:
    """Nothing says how long it is; keys would be taken for new ones, and deleted rows would come back."""
    name = newest(table).index_manifest
    assert name is not None
    change(table.paths.manifest_path(name), without_blocks)
    with pytest.raises(CorruptFileError, match=r"the header's checksum does not match: .* cut at \d+ bytes"):
        upsert(Table.open(table.uri), [(1, 1, "twice")])


def test_a_cut_index_manifest_of_another_writer(table: Table) -> None:
    """A batch is refused where keys are missing from it, and leaves no snapshot; other partitions go on."""
    upsert(table, [(2, 7, "other")])
    name = newest(table).index_manifest
    assert name is not None
    entries = [
        e
        for e in table.metadata.load_index_manifest(name)
        if decode_partition_dict(e.partition, table.schema)["p"] == 2
    ]
    change(table.paths.manifest_path(name), lambda _: as_others_write(encode_index_manifest(entries)))
    again = Table.open(table.uri)
    with pytest.raises(CorruptFileError, match=r"bucket 0 of partition \{'p': 1\} has rows and no hash index"):
        upsert(again, [(1, 1, "twice")])
    assert newest(again).id == 2
    upsert(again, [(2, 7, "new")])
    upsert(again, [(1, 5, "all")], overwrite="partitions")
    assert content(again) == {(1, 5): "all", (2, 7): "new"}


def test_a_snapshot_under_another_name(table: Table) -> None:
    upsert(table, [(1, 9, "later")])
    first, second = Path(table.paths.snapshot_path(1)), Path(table.paths.snapshot_path(2))
    second.write_bytes(first.read_bytes())
    check_damaged(table, "the file named snapshot 2 contains snapshot 1")


# An index manifest entry that led to the vector of another data file was believed when it named no cardinality.


def test_the_length_of_a_vector_is_that_of_its_entry() -> None:
    data, (a, b) = encode_deletion_vectors({"a": [1, 5, 9], "b": range(0, 100, 3)})
    wrong = DeletionVectorMeta(data_file_name="a", offset=b.offset, length=a.length)
    offset, size = vector_range(b)
    with pytest.raises(CorruptFileError, match=f"vector of {b.length} bytes, the index manifest has {a.length}"):
        decode_vector(data[offset : offset + size], wrong, "index-1")
