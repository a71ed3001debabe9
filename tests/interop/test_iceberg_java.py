"""Iceberg readers see of a table of lakeidx what they see of one that Java wrote by the same steps, also when both take turns.

pyiceberg runs in this environment, DuckDB with its extensions from PyPI and Spark with Iceberg's runtime each in one of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import lakeidx
from tests.kit.iceberg_readers import by_duckdb, by_spark
from tests.kit.java_paimon import JavaPaimon
from tests.kit.java_tools import selected_paimon

pytestmark = pytest.mark.interop
TYPES = {"id": "BIGINT", "p": "STRING", "d": "DATE", "n": "DECIMAL(10,2)", "b": "BOOLEAN", "v": "STRING",
         "t": "TIMESTAMP(6)", "f": "DOUBLE", "s": "SMALLINT"}  # fmt: skip
Step = tuple[list[dict[str, Any]], bool]


def row(id: int, p: str, v: str | None, *, day: int = 1, kind: str = "+I") -> dict[str, Any]:
    out = {"id": str(id), "p": p, "d": f"2024-01-0{day}", "n": f"{day}.25", "b": "true", "t": "2024-01-01 01:02:03.123456",
           "f": "1.5", "s": "-7", "_kind": kind}  # fmt: skip
    return out | {"v": v}


#: Rows, and whether a full compaction follows.
STEPS: list[Step] = [
    ([row(i, p, "x", day=day) for i in range(3) for p in "ab" for day in (1, 2)], True),
    ([row(1, "a", "y"), row(9, "c", None)], False),
    ([row(2, "b", "z", day=2)], True),
    ([row(0, "a", "x", kind="-D"), row(0, "a", "x", day=2, kind="-D")], True),
    ([row(5, "a", "late")], False),
]


def spec(*, partitions: Sequence[str], **options: str) -> dict[str, Any]:
    keys = [*partitions, "id"]
    return {
        "fields": [
            {"id": i, "name": n, "type": t + (" NOT NULL" if n in keys else "")}
            for i, (n, t) in enumerate(TYPES.items())
        ],
        "primaryKeys": keys,
        "partitionKeys": list(partitions),
        "options": {"bucket": "1", "file.format": "parquet", "metadata.iceberg.storage": "table-location"}
        | {k.replace("_", "-"): v for k, v in options.items()},
    }


def java(table: JavaPaimon, steps: Sequence[Step], folder: Path) -> None:
    for rows, compact in steps:
        table.write(rows, folder / "rows.jsonl", compact=compact)


def ours(table: lakeidx.Table, steps: Sequence[Step]) -> None:
    for rows, compact in steps:
        for kind in ("+I", "-D"):
            given = [{k: v for k, v in r.items() if k != "_kind"} for r in rows if r["_kind"] == kind]
            if given and kind == "+I":
                table.upsert(given)
            elif given:
                keys = set(table.schema.primary_keys)
                table.delete([{k: v for k, v in r.items() if k in keys} for r in given])
        if compact:
            table.compact(full=True)


def by_pyiceberg(*folders: str) -> list[Any]:
    found = [StaticTable.from_metadata(f).scan().to_arrow() for f in folders]
    return [sorted([str(v) for v in r.values()] for r in rows.select(list(TYPES)).to_pylist()) for rows in found]


READERS: list[Callable[..., list[Any]]] = [by_pyiceberg, by_duckdb, by_spark]


def manifests(folder: str) -> list[Any]:
    """What the newest metadata lists, without what is random: status, rows, statistics and partition of each file."""
    table = StaticTable.from_metadata(folder)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    out = []
    for manifest in snapshot.manifests(table.io):
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        head = (
            manifest.content,
            manifest.added_files_count,
            manifest.existing_files_count,
            manifest.deleted_files_count,
        )
        out.append((head, sorted(_entry(e) for e in entries)))
    return sorted(out, key=repr)


def _entry(entry: Any) -> str:
    file = entry.data_file
    bounds = [sorted((m or {}).items()) for m in (file.null_value_counts, file.lower_bounds, file.upper_bounds)]
    return repr((entry.status, list(file.partition), file.record_count, bounds))


@pytest.mark.one_witness
@pytest.mark.parametrize("partitions", [(), ("p",), ("d", "b")])
def test_the_same_steps_give_readers_the_same_rows(tmp_path: Path, partitions: tuple[str, ...]) -> None:
    folders: list[str] = []
    for who in ("java", "ours"):
        description = spec(partitions=partitions)
        (tmp_path / "s.json").write_text(json.dumps(description))
        witness = JavaPaimon(f"{tmp_path}/{who}", "d.t")
        witness.run("create", f"{tmp_path}/s.json")
        folders.append(f"{tmp_path}/{who}/d.db/t")
        if who == "java":
            java(witness, STEPS, tmp_path)
        else:
            ours(lakeidx.Table.open(folders[1]), STEPS)
    assert manifests(folders[0])[0][0] == manifests(folders[1])[0][0]
    assert [e for _, entries in manifests(folders[0]) for e in entries if "ADDED" in e] == [
        e for _, entries in manifests(folders[1]) for e in entries if "ADDED" in e
    ]
    expected = by_pyiceberg(folders[0])[0]
    assert len(expected) >= 3
    for reader in READERS if partitions == ("p",) else READERS[:2]:
        of_java, of_ours = reader(*folders)
        assert of_java == of_ours, reader.__name__


def test_java_and_lakeidx_take_turns(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(spec(partitions=("p",))))
    witness = JavaPaimon(f"{tmp_path}/wh", "d.t")
    witness.run("create", f"{tmp_path}/s.json")
    folder = f"{tmp_path}/wh/d.db/t"
    for i, step in enumerate(STEPS):
        if i % 2:
            java(witness, [step], tmp_path)
        else:
            ours(lakeidx.Table.open(folder), [step])
        number = json.loads(Path(f"{folder}/metadata/version-hint.text").read_text())
        assert number == lakeidx.Table.open(folder).metadata.latest_snapshot_id()
    java(witness, [([row(6, "a", "x")], True)], tmp_path)
    assert _keys(by_pyiceberg(folder)[0]) == by_java(witness)
    ours(lakeidx.Table.open(folder), [([row(7, "a", "x")], True)])
    assert _keys(by_pyiceberg(folder)[0]) == by_java(witness)


def test_tags_are_references_as_java_writes_them(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(spec(partitions=("p",))))
    both = {who: JavaPaimon(f"{tmp_path}/{who}", "d.t") for who in ("java", "ours")}
    for witness in both.values():
        witness.run("create", f"{tmp_path}/s.json")
    table = lakeidx.Table.open(f"{tmp_path}/ours/d.db/t")

    def references() -> dict[str, Any]:
        found = [
            json.loads(
                Path(f"{tmp_path}/{w}/d.db/t/metadata/v{table.metadata.latest_snapshot_id()}.metadata.json").read_text()
            )
            for w in both
        ]
        assert found[0]["refs"] == found[1]["refs"]
        return dict(found[1]["refs"])

    java(both["java"], STEPS[:2], tmp_path)
    ours(table, STEPS[:2])
    for name, snapshot in (("one", 1), ("two", 3)):
        both["java"].run("tag", name, str(snapshot))
        table.create_tag(name, snapshot=snapshot)
    assert {n: r["snapshot-id"] for n, r in references().items()} == {"one": 1, "two": 3}
    both["java"].run("untag", "one")
    table.delete_tag("one")
    assert [*references()] == ["two"]
    java(both["java"], STEPS[2:3], tmp_path)
    ours(table, STEPS[2:3])
    assert [*references()] == ["two"]
    # Each takes out, and lists again, the tag that the other made.
    both["ours"].run("tag", "of_java", str(table.metadata.latest_snapshot_id()))
    found = StaticTable.from_metadata(table.uri).snapshot_by_name("of_java")
    assert found is not None
    assert found.snapshot_id == table.metadata.latest_snapshot_id()
    table.delete_tag("of_java")
    assert [*references()] == ["two"]


def by_java(witness: JavaPaimon) -> list[tuple[str, str, str | None]]:
    return sorted((str(r["id"]), r["p"], r["v"]) for r in witness.json("read"))


def _keys(rows: list[list[str]]) -> list[tuple[str, str, str | None]]:
    return sorted((r[0], r[1], None if r[5] == "None" else r[5]) for r in rows)


def test_deletion_vectors_of_format_3(tmp_path: Path) -> None:
    """DuckDB reads the vectors where they are; pyiceberg wants a Puffin file, which Paimon's is not."""
    options = {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": "true",
        "metadata.iceberg.format-version": "3",
    }
    description = spec(partitions=("p",))
    description["options"] |= options
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", description)
    ours(table, [([row(i, "a", "x") for i in range(6)], True), ([row(3, "a", "y")], False)])
    lakeidx.Table.open(table.uri).compact()
    witness = JavaPaimon(f"{tmp_path}/wh", "d.t")
    expected = by_java(witness)
    assert _keys(by_duckdb(table.uri)[0]) == expected
    with pytest.raises(ValueError, match="Incorrect magic bytes"):
        by_pyiceberg(table.uri)
    java(witness, [([row(4, "a", "z")], True)], tmp_path)
    assert selected_paimon() in ("1.4.2", "2.1")
    assert _keys(by_duckdb(table.uri)[0]) == by_java(witness)
