"""Iceberg metadata of commits, as pyiceberg reads it; `tests/interop/test_iceberg_java.py` compares it with Java's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import lakeidx
from lakeidx.errors import InvalidInputError, UnavailableError
from lakeidx.table.iceberg import publish
from lakeidx.table.iceberg.files import MetadataDir

FIELDS = [{"name": "id", "type": "BIGINT NOT NULL"}, {"name": "p", "type": "STRING NOT NULL"},
          {"name": "v", "type": "STRING"}]  # fmt: skip
Rows = list[tuple[int, str, str]]


def make(folder: Path, **options: str) -> lakeidx.Table:
    spec = {
        "fields": FIELDS,
        "primaryKeys": ["p", "id"],
        "partitionKeys": ["p"],
        "options": {"bucket": "-1", "metadata.iceberg.storage": "table-location"}
        | {k.replace("_", "."): v for k, v in options.items()},
    }
    return lakeidx.Table.create(folder / "wh" / "d.db" / "t", spec)


def put(table: lakeidx.Table, rows: Rows) -> None:
    table.upsert(pa.table([pa.array(c) for c in zip(*rows, strict=True)], names=["id", "p", "v"]))


def seen(folder: str) -> Rows:
    """The rows that an Iceberg reader sees."""
    found = StaticTable.from_metadata(folder).scan().to_arrow().select(["id", "p", "v"]).to_pylist()
    return sorted((r["id"], r["p"], r["v"]) for r in found)


def read(folder: str) -> Rows:
    """The rows of the table."""
    found = lakeidx.Table.open(folder).scan().to_arrow().select(["id", "p", "v"]).to_pylist()
    return sorted((r["id"], r["p"], r["v"]) for r in found)


def newest(table: lakeidx.Table) -> dict[str, Any]:
    folder = Path(table.uri) / "metadata"
    hint = (folder / "version-hint.text").read_text()
    content: dict[str, Any] = json.loads((folder / f"v{hint}.metadata.json").read_text())
    assert content["current-snapshot-id"] == int(hint)
    return content


def files_of(table: lakeidx.Table) -> set[str]:
    return {p.name for p in (Path(table.uri) / "metadata").iterdir()}


def found(table: lakeidx.Table) -> tuple[bool, list[Any]]:
    """What a verification says of the metadata."""
    (rule,) = [r for r in lakeidx.Table.open(table.uri).verify().results if r.name == "iceberg_metadata"]
    return rule.passed, list(rule.sample)


def name_an_older_one(table: lakeidx.Table) -> None:
    (Path(table.uri) / "metadata" / "version-hint.text").write_text("1")


def name_one_whose_file_is_gone(table: lakeidx.Table) -> None:
    name_an_older_one(table)
    live = {f["path"] for f in table.files()}
    for file in Path(table.uri).glob("p=a/bucket-0/*.parquet"):
        if str(file) not in live:
            file.unlink()


def lose_the_manifests(table: lakeidx.Table) -> None:
    for file in (Path(table.uri) / "metadata").glob("*-m*.avro"):
        file.unlink()


def damage_the_metadata(table: lakeidx.Table) -> None:
    (Path(table.uri) / "metadata" / "v3.metadata.json").write_text('{"snapshots": [{}]}')


def list_another_snapshots_files(table: lakeidx.Table) -> None:
    folder = Path(table.uri) / "metadata"
    content = json.loads((folder / "v3.metadata.json").read_text())
    content["snapshots"][-1]["manifest-list"] = content["snapshots"][0]["manifest-list"]
    (folder / "v3.metadata.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (name_an_older_one, {"behind"}),
        (name_one_whose_file_is_gone, {"behind", "missing"}),
        (lose_the_manifests, {"unreadable"}),
        (damage_the_metadata, {"unreadable"}),
        (list_another_snapshots_files, {"not_of_the_snapshot"}),
    ],
)
def test_a_verification_finds(tmp_path: Path, fault: Any, said: set[str]) -> None:
    """Faults of metadata that readers would go by; what only the metadata has wrong, the next expiry or commit mends."""
    table = make(tmp_path, **{"metadata.iceberg.previous-versions-max": "5"})
    put(table, [(1, "a", "x")])
    put(table, [(1, "a", "y"), (2, "b", "y")])
    table.compact(full=True)
    assert found(table) == (True, [])
    fault(table)
    passed, sample = found(table)
    assert (passed, {s["fault"] for s in sample}) == (False, said)
    if said == {"not_of_the_snapshot"}:
        shutil.rmtree(Path(table.uri) / "metadata")
    put(table, [(3, "b", "z")])
    table.compact(full=True)
    assert found(table) == (True, [])
    assert seen(table.uri) == read(table.uri) == [(1, "a", "y"), (2, "b", "y"), (3, "b", "z")]


def test_readers_see_the_last_compaction(tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, [(1, "a", "x"), (2, "a", "x"), (1, "b", "x")])
    assert seen(table.uri) == read(table.uri)
    put(table, [(2, "a", "y"), (3, "c", "y")])
    assert seen(table.uri) == [(1, "a", "x"), (1, "b", "x"), (2, "a", "x")]
    table.compact(full=True)
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x"), (1, "b", "x"), (2, "a", "y"), (3, "c", "y")]
    table.delete(pa.table({"p": ["a"], "id": [1]}))
    table.compact(full=True)
    assert seen(table.uri) == read(table.uri) == [(1, "b", "x"), (2, "a", "y"), (3, "c", "y")]
    summaries = [s["summary"]["operation"] for s in newest(table)["snapshots"]]
    assert summaries == ["append", "append", "overwrite", "append", "overwrite"]


def test_a_commit_that_died_before_its_metadata_is_repaired_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(tmp_path)
    put(table, [(1, "a", "x")])
    with monkeypatch.context() as patched:
        patched.setattr(publish._Publication, "run", lambda *_: (_ for _ in ()).throw(UnavailableError("no answer")))
        table.compact(full=True)
        put(table, [(1, "a", "y")])
        table.compact(full=True)
    assert "Iceberg readers do not see it" in caplog.text
    assert seen(table.uri) == [(1, "a", "x")]
    put(table, [(5, "b", "z")])
    assert seen(table.uri) == read(table.uri) == [(1, "a", "y"), (5, "b", "z")]
    assert len(newest(table)["snapshots"]) == 1
    assert len(files_of(table)) == 4, "what the new metadata does not name is gone"


class Died(BaseException):
    """The process ends: nothing handles it."""


@pytest.mark.parametrize(
    ("death", "repair"),
    [(d, "expire") for d in ("write_list", "write_version", "hint")]
    + [("write_version", r) for r in ("the same batch", "another batch", "fast_forward")],
)
def test_what_a_writer_left_that_died_after_its_snapshot_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: str, repair: str
) -> None:
    table = make(tmp_path)
    put(table, [(1, "a", "x")])

    def die(*_: Any, **__: Any) -> Any:
        raise Died

    rows = pa.table({"id": [2], "p": ["b"], "v": ["y"]})
    with monkeypatch.context() as patched:
        patched.setattr(MetadataDir, death, property(die) if death == "hint" else die)
        with pytest.raises(Died):
            table.upsert(rows, batch_id="7")
    table = lakeidx.Table.open(table.uri)
    assert seen(table.uri) == [(1, "a", "x")]
    assert found(table) == (False, [{"fault": "behind", "snapshot": 2, "metadata_of": 1}])
    if repair == "the same batch":
        assert table.upsert(rows, batch_id="7").already
    elif repair == "another batch":
        put(table, [(2, "b", "y")])
    elif repair == "expire":
        table.expire()
    else:
        table.create_branch("b", snapshot=2)
        put(lakeidx.Table.open(table.uri, branch="b"), [(2, "b", "y")])
        table.fast_forward("b")
    assert newest(table)["current-snapshot-id"] == table.metadata.latest_snapshot_id()
    assert found(table) == (True, [])
    table.compact(full=True)
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x"), (2, "b", "y")]


def test_a_rollback_takes_iceberg_readers_with_it(tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, [(1, "a", "x")])
    table.compact(full=True)
    kept = newest(table)["current-snapshot-id"]
    put(table, [(1, "a", "y")])
    table.compact(full=True)
    table.rollback(kept)
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x")]
    put(table, [(2, "a", "z")])
    table.compact(full=True)
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x"), (2, "a", "z")]


def test_overwrites_and_dropped_partitions(tmp_path: Path) -> None:
    table = make(tmp_path, bucket="1")
    put(table, [(1, "a", "x"), (2, "b", "x"), (3, "c", "x")])
    table.compact(full=True)
    table.drop_partitions(["p=a"])
    assert seen(table.uri) == read(table.uri) == [(2, "b", "x"), (3, "c", "x")]
    table.overwrite(pa.table({"id": [4], "p": ["b"], "v": ["y"]}))
    assert seen(table.uri) == read(table.uri) == [(3, "c", "x"), (4, "b", "y")]
    assert found(table) == (True, [])
    table.rollback(2)
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x"), (2, "b", "x"), (3, "c", "x")]


def test_a_renamed_table_has_metadata_of_its_new_place(tmp_path: Path) -> None:
    put(make(tmp_path), [(1, "a", "x")])
    warehouse = lakeidx.Warehouse(tmp_path / "wh")
    warehouse.rename("d.t", "d.renamed")
    table = warehouse.table("d.renamed")
    table.compact(full=True)
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x")]
    assert found(table) == (True, [])
    warehouse.rename("d.renamed", "d.again")
    again = warehouse.table("d.again")
    assert seen(again.uri) == [(1, "a", "x")]
    assert newest(again)["location"] == again.uri
    with pytest.raises(InvalidInputError, match="behind '\\$' comes the name of a branch"):
        warehouse.rename("d.again", "d.t$branch_b")


def test_tags_of_listed_snapshots_are_references(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "4"}
    table = make(tmp_path, **options)
    put(table, [(1, "a", "x")])
    table.compact(full=True)
    table.create_tag("one")
    table.create_tag("first", snapshot=1)
    put(table, [(1, "a", "y")])
    table.compact(full=True)

    def references() -> dict[str, int]:
        return {n: r["snapshot-id"] for n, r in newest(table)["refs"].items()}

    assert references() == {"one": 2, "first": 1}
    assert StaticTable.from_metadata(table.uri).snapshot_by_name("one").snapshot_id == 2  # type: ignore[union-attr]
    table.rename_tag("one", "uno")
    table.create_tag("first", snapshot=3, replace=True)
    assert references() == {"uno": 2, "first": 3}
    table.delete_tag("first")
    assert references() == {"uno": 2}
    for _ in range(3):
        put(table, [(1, "a", "z")])
        table.compact(full=True)
    assert references() == {}, "its snapshot has expired for Iceberg readers"
    table.rollback(tag="uno")
    assert references() == {"uno": 2}
    assert seen(table.uri) == read(table.uri) == [(1, "a", "x")]


def test_what_a_commit_writes_follows_the_commit(tmp_path: Path) -> None:
    """Manifests of partitions that a commit leaves alone are named again, not written again."""
    table = make(tmp_path)
    for partition in "abcdef":
        put(table, [(i, partition, "x") for i in range(3)])
        table.compact(full=True)
    before = files_of(table)
    put(table, [(1, "c", "y")])
    table.compact(full=True)
    new = [n for n in files_of(table) - before if "-m" in n]
    assert len(new) == 2, "the manifest of c without its file, and that with the new one"
    assert seen(table.uri) == read(table.uri)


def test_snapshots_and_versions_expire(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3",
               "metadata.iceberg.previous-versions-max": "2"}  # fmt: skip
    table = make(tmp_path, **options)
    for i in range(8):
        put(table, [(i, "a", "x")])
        table.compact(full=True)
    content = newest(table)
    last = content["current-snapshot-id"]
    assert [s["snapshot-id"] for s in content["snapshots"]] == [last - 2, last - 1, last]
    assert {n for n in files_of(table) if n.startswith("v")} == {
        "version-hint.text",
        *(f"v{i}.metadata.json" for i in range(last - 2, last + 1)),
    }
    assert len([n for n in files_of(table) if n.startswith("snap-")]) == 3
    assert seen(table.uri) == read(table.uri)


def test_many_small_manifests_are_merged(tmp_path: Path) -> None:
    table = make(
        tmp_path,
        **{"metadata.iceberg.compaction.min.file-num": "3", "metadata.iceberg.compaction.max.file-num": "4"},
    )
    for i in range(6):
        put(table, [(i, f"p{i}", "x")])
        table.compact(full=True)
    lists = StaticTable.from_metadata(table.uri)
    snapshot = lists.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(lists.io)) <= 4
    assert seen(table.uri) == read(table.uri)


def test_a_catalogs_directory(tmp_path: Path) -> None:
    table = make(tmp_path, **{"metadata.iceberg.storage": "hadoop-catalog"})
    put(table, [(1, "a", "x")])
    assert not (Path(table.uri) / "metadata").exists()
    assert seen(f"{tmp_path}/wh/iceberg/d/t") == [(1, "a", "x")]
    # It goes with the table, and with its name.
    warehouse = lakeidx.Warehouse(tmp_path / "wh")
    warehouse.rename("d.t", "d.u")
    assert seen(f"{tmp_path}/wh/iceberg/d/u") == [(1, "a", "x")]
    assert {p.name for p in (tmp_path / "wh" / "iceberg" / "d").iterdir()} == {"u"}
    warehouse.drop("d.u")
    assert not any(p.is_file() for p in tmp_path.rglob("*"))


def test_columns_that_change(tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, [(1, "a", "x")])
    table.compact(full=True)
    table.alter(add={"n": "INT"})
    table.upsert(pa.table({"id": [2], "p": ["a"], "v": ["y"], "n": pa.array([7], pa.int32())}))
    table.compact(full=True)
    content = newest(table)
    assert [s["schema-id"] for s in content["schemas"]] == [0, 1]
    found = StaticTable.from_metadata(table.uri).scan().to_arrow().to_pylist()
    assert sorted((r["id"], r["n"]) for r in found) == [(1, None), (2, 7)]


@pytest.mark.parametrize("kind", ["TIME(3)", "TIMESTAMP(0)", "MULTISET<INT>"])
def test_types_that_iceberg_lacks_are_refused_before_the_commit(tmp_path: Path, kind: str) -> None:
    fields: list[dict[str, Any]] = [FIELDS[0], {"name": "x", "type": kind}]
    if kind.startswith("MULTISET"):
        fields[1] = {"name": "x", "type": {"type": "MULTISET", "element": "INT"}}
    options = {"bucket": "-1", "metadata.iceberg.storage": "table-location"}
    table = lakeidx.Table.create(tmp_path / "t", {"fields": fields, "primaryKeys": ["id"], "options": options})
    with pytest.raises(InvalidInputError, match=r"column 'x' is .*, which Iceberg metadata cannot have"):
        table.upsert([{"id": 1, "x": None}])
    assert table.scan().to_arrow().num_rows == 0


def test_orphan_removal_leaves_the_metadata_alone(tmp_path: Path) -> None:
    table = make(tmp_path)
    put(table, [(1, "a", "x")])
    before = files_of(table)
    table.maintenance.orphans(older_than="0 s", remove=True)
    assert files_of(table) == before
    assert seen(table.uri) == [(1, "a", "x")]
