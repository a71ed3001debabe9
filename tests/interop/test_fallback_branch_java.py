"""A table with `scan.fallback-branch`: Java and lakeidx read the same rows of it, of each state, whoever has set the option."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from tests.interop.java_judges import judge, paimon_jars
from tests.interop.test_metadata_tables_java import compare_rows
from tests.kit.java_paimon import JavaPaimon
from tests.kit.java_tools import RELEASED, selected_paimon

pytestmark = pytest.mark.interop

FIELDS = [{"name": n, "type": t} for n, t in (("dt", "STRING"), ("name", "STRING"), ("amount", "BIGINT"))]
Rows = list[tuple[Any, ...]]


def row(dt: str, name: str, amount: int) -> dict[str, Any]:
    return {"dt": dt, "name": name, "amount": amount}


def ours(table: lakeidx.Table, **state: Any) -> Rows:
    return sorted((r["dt"], r["name"], r["amount"]) for r in table.scan(**state).to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (["dt", "name"], {"bucket": "2"}),
        (["dt", "name"], {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}),
        (["name"], {"bucket": "-1"}),
        ([], {"bucket": "-1"}),
    ],
)
def test_java_reads_the_same(tmp_path: Path, paimon: str, key: list[str], options: dict[str, str]) -> None:
    spec = {"fields": FIELDS, "partitionKeys": ["dt"], "primaryKeys": key, "options": options}
    table = lakeidx.Table.create(tmp_path / "d.db" / "t", spec)
    table.create_branch("s")
    branch = table.branch("s")
    branch.upsert([row("25", "apple", 4), row("25", "peach", 10), row("26", "cherry", 3)])
    branch.compact(full=True)
    branch.create_tag("both")
    time.sleep(0.002)
    table.upsert([row("25", "banana", 7)])
    table.create_tag("both")
    table.create_tag("here")
    first = table.snapshot
    assert first is not None
    time.sleep(0.002)
    branch.upsert([row("27", "kiwi", 1)])
    branch.compact(full=True)
    table.upsert([row("25", "fig", 2)])
    table.alter(set={"scan.fallback-branch": "s"})
    java = JavaPaimon(str(tmp_path), "d.t")

    def theirs(*options: str) -> Rows:
        return sorted((r["dt"], r["name"], int(r["amount"])) for r in java.json("read", *options))

    assert {r[0] for r in ours(table)} == {"25", "26", "27"}
    assert ours(table) == theirs()
    assert ours(table, snapshot=1) == theirs("scan.snapshot-id=1")
    assert ours(table, timestamp=first.time_millis) == theirs(f"scan.timestamp-millis={first.time_millis}")
    # 1.4.2 looks for the branch's tag in the table, and finds nothing; 2.1 refuses a tag that the branch has not.
    tag = "here" if paimon == "1.4.2" else "both"
    assert ours(table, tag=tag) == theirs(f"scan.tag-name={tag}")
    assert lakeidx.Table.open(f"{table.uri}$branch_s").scan().to_arrow().num_rows == 4


def test_a_branch_with_a_key_that_java_set(tmp_path: Path) -> None:
    """The example of Paimon's documentation: a table without a key falls back on a branch that has one, and other buckets."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"fields": FIELDS, "partitionKeys": ["dt"], "primaryKeys": [], "options": {}}))
    java = JavaPaimon(str(tmp_path), "d.t")
    java.run("create", str(schema))
    table = lakeidx.Table.open(tmp_path / "d.db" / "t")
    table.create_branch("test")
    branch = table.branch("test")
    # Java moves an option `primary-key` of a branch without rows into its schema.
    path = branch.paths.schema_path(0)
    stored = json.loads(branch.store.get(path))
    for field in stored["fields"][:2]:
        field["type"] = "STRING NOT NULL"
    stored |= {"primaryKeys": ["dt", "name"], "options": {"bucket": "2"}, "id": 1}
    branch.store.put_if_absent(branch.paths.schema_path(1), json.dumps(stored).encode())
    JavaPaimon(str(tmp_path), "d.t$branch_test").write(
        [{"dt": "25", "name": "apple", "amount": "4"}, {"dt": "26", "name": "cherry", "amount": "3"}],
        tmp_path / "rows.jsonl",
    )
    table.alter(set={"scan.fallback-branch": "test"})
    table.upsert([row("25", "banana", 7)])
    read = sorted((r["dt"], r["name"], int(r["amount"])) for r in java.json("read"))
    assert ours(table) == read == [("25", "banana", 7), ("26", "cherry", 3)]


def test_java_lists_the_same_partitions(tmp_path: Path) -> None:
    """Of the table and of the branch, without level 0 where readers do not see it."""
    jobs: list[tuple[Path | str, str, Path]] = []
    vectors = {"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"}
    for name, options in (("fixed", {"bucket": "2"}), ("vectors", vectors), ("empty", {"bucket": "-1"})):
        spec = {"fields": FIELDS, "partitionKeys": ["dt"], "primaryKeys": ["dt", "name"], "options": options}
        table = lakeidx.Table.create(tmp_path / "d.db" / name, spec)
        table.create_branch("s")
        branch = table.branch("s")
        branch.upsert([row("25", "apple", 4), row("25", "peach", 10), row("26", "cherry", 3), row("26", "plum", 1)])
        branch.compact(full=True)
        branch.upsert([row("26", "plum", 2)])
        branch.compact()
        branch.upsert([row("24", "level 0", 2)])
        if name != "empty":
            table.upsert([row("25", "banana", 7), row("23", "fig", 7)])
            table.compact(full=True)
            table.upsert([row("23", "kiwi", 7), row("22", "fig", 7)])
            table.drop_partitions(["dt=25"])
        table.alter(set={"scan.fallback-branch": "s"})
        jobs.append((table.uri, "partitions", tmp_path / name))
    jobs.append((tmp_path, "sys.partitions", tmp_path / "sys"))
    judge("ChangesJudge", paimon_jars(), jobs, tmp_path)
    for place, name, file in jobs:
        of_all = isinstance(place, Path)
        found = (
            lakeidx.Warehouse(place).system("partitions") if of_all else lakeidx.Table.open(place).system(name)
        ).to_arrow()
        assert found.num_rows > 1
        compare_rows(found, file, newest=selected_paimon() != RELEASED)
