"""Files of manifests cut at a block, or another one in their place, read as a table with fewer rows: Avro cannot tell.

What lakeidx writes has a checksum; of what others wrote the sizes are compared, and for index manifests what must be in them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.codec.containers.avro import MAGIC, SYNC_SIZE
from lakeidx.errors import CorruptFileError
from lakeidx.format.index_manifest import encode_index_manifest
from lakeidx.format.snapshot import Snapshot
from lakeidx.table.view import decode_partition_dict
from tests.kit.avro_checksum import as_others_write
from tests.kit.small_tables import content, make_table, upsert


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = make_table(tmp_path)
    upsert(table, [(1, k, "row") for k in range(3)])
    return table


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
