"""Bucket assignment: the driver's way and assigners in tasks obey the same rules; targets, keys and their numbers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.api.table import Table
from lakeidx.batch.assignment.placement import plan_assigners
from lakeidx.batch.assignment.row_keys import placing_columns, row_keys
from lakeidx.batch.context import make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.target_files import numbers_path, read_numbers, read_part_targets, write_numbers
from lakeidx.codec.hashes.murmur import hash_words
from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.storage.local import LocalStore
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import parse_type
from tests.kit.small_tables import content, make_table, rows, table_spec
from tests.kit.upserts import upsert_table

Values = list[tuple[int, int, str | None]]


def put(
    table: Table, name: str, values: Values, *, assigners: int, kinds: list[str] | None = None, **options: Any
) -> Any:
    """Upsert by so many assigners in tasks; 0: by the driver."""
    large = {"driver_bytes": 0} if assigners else {}
    context = make_context(table.metadata, name, runner=LocalRunner(max(1, assigners)), **large, **options)  # type: ignore[arg-type]
    return upsert_table(context, rows(values, kinds))


def index_of(table: Table) -> dict[bytes, dict[int, set[int]]]:
    """partition -> bucket -> hashes; no hash stands twice in a file or in two buckets of a partition."""
    view = load_view(table.metadata, table.metadata.latest_snapshot())
    out: dict[bytes, dict[int, set[int]]] = {}
    for partition, buckets in view.hash_index().items():
        seen: Counter[int] = Counter()
        for bucket, entry in buckets.items():
            path = next(f.path for f in table.store.walk(table.uri) if f.name == entry.file_name)
            hashes = decode_hash_index(table.store.get(path), path).tolist()
            seen.update(hashes)
            out.setdefault(partition, {})[bucket] = set(hashes)
        assert not [h for h, n in seen.items() if n > 1]
    return out


def targets_of(table: Table, result: Any) -> list[list[int]]:
    """The target of each row of each part."""
    assign = result.assign
    return [
        read_part_targets(table.store, path, assign.placing_tasks[number], part.rows).tolist()
        for number, (part, path) in enumerate(zip(result.ingest.parts, assign.targets_paths, strict=True))
    ]


@pytest.mark.slow
def test_driver_and_one_assigner_in_a_task_agree_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tables = [make_table(tmp_path / name) for name in ("driver", "tasks")]
    for number in range(3):
        values = [
            (int(p), int(k), "x") for p, k in zip(rng.integers(1, 4, 300), rng.integers(0, 500, 300), strict=True)
        ]
        kinds = rng.choice(["+I", "+U", "-D", "-U"], 300).tolist()
        one = put(tables[0], f"b{number}", values, assigners=0, kinds=kinds)  # type: ignore[arg-type]
        two = put(tables[1], f"b{number}", values, assigners=1, kinds=kinds)  # type: ignore[arg-type]
        assert one.assign.targets == tuple(
            t.model_copy(update={"index_file": a.index_file})
            for t, a in zip(two.assign.targets, one.assign.targets, strict=True)
        )
        assert targets_of(tables[0], one) == targets_of(tables[1], two)
        assert (one.assign.inserts, one.assign.updates, one.assign.deletes, one.assign.new_buckets) == (
            two.assign.inserts, two.assign.updates, two.assign.deletes, two.assign.new_buckets,
        )  # fmt: skip
    assert index_of(tables[0]) == index_of(tables[1])
    assert content(tables[0]) == content(tables[1])


def test_the_batch_id_decides_random_buckets_and_nothing_else(tmp_path: Path) -> None:
    options = {"dynamic-bucket.target-row-num": "5", "dynamic-bucket.max-buckets": "3"}
    seen = []
    for name in ("x", "y"):
        table = make_table(tmp_path / name, options=options)
        result = put(table, "same", [(1, k, "v") for k in range(60)], assigners=0)
        seen.append(targets_of(table, result))
        assert len(index_of(table).popitem()[1]) == 3
    assert seen[0] == seen[1]


def test_an_index_file_with_another_number_of_hashes_is_named(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    put(table, "a", [(1, k, "a") for k in range(8)], assigners=0)
    index = next((Path(table.uri) / "index").iterdir())
    index.write_bytes(index.read_bytes()[:-4])
    for assigners in (0, 2):
        fresh = Table.open(table.uri)
        with pytest.raises(
            CorruptFileError, match=rf"{index.name}: the hash index file has 7 hashes, the manifest says 8"
        ):
            put(fresh, f"b{assigners}", [(1, 1, "b")], assigners=assigners)
    assert table.metadata.snapshot_ids() == [1]


def test_a_finished_assignment_gives_its_report_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    result = put(table, "a", [(1, 1, "a")], assigners=0)
    context = make_context(Table.open(table.uri).metadata, "a")
    assert run_bucket_assignment(context) == result.assign


def test_number_of_assigners_by_options(tmp_path: Path) -> None:
    def plan(parallelism: int, **options: str) -> int:
        names = {k.replace("_", "-"): v for k, v in options.items()}
        table = make_table(
            tmp_path / str(len(list(tmp_path.iterdir()))), options={f"dynamic-bucket.{k}": v for k, v in names.items()}
        )
        return plan_assigners(table.schema, parallelism).num_assigners

    assert plan(4) == 4
    assert plan(4, initial_buckets="2") == 2
    assert plan(2, assigner_parallelism="7") == 7
    assert plan(8, max_buckets="3") == 3
    assert plan(8, initial_buckets="20") == 8
    assert plan(8, assigner_parallelism="12", initial_buckets="10", max_buckets="4") == 4
    with pytest.raises(InvalidInputError, match=r"dynamic-bucket.max-buckets"):
        plan(8, max_buckets="0")


# --- keys and targets --------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "", "żółw"]), st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_keys_of_columns_are_those_of_each_row(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[str, int, int]]
) -> None:
    spec = table_spec("s STRING, i INT, k BIGINT", ["s", "i", "k"], partitions=["s", "i"], options={"bucket": "-1"})
    schema = Table.create(f"{tmp_path_factory.mktemp('k')}/wh/d.db/t", spec).schema
    assert placing_columns(schema) == ("s", "i", "k")
    columns = [list(c) for c in zip(*values, strict=True)] or [[], [], []]
    table = pa.table(
        {
            "s": pa.array(columns[0], pa.string()),
            "i": pa.array(columns[1], pa.int32()),
            "k": pa.array(columns[2], pa.int64()),
        }
    )
    keys = row_keys(table, schema)
    text, number, big = (parse_type(t) for t in ("STRING", "INT", "BIGINT"))
    assert [keys.partitions[c] for c in keys.codes] == [
        with_arity(encode_row([s, i], [text, number]), 2) for s, i, _ in values
    ]
    assert keys.hashes.tolist() == [hash_words(encode_row([k], [big])) for _, _, k in values]
    assert len(set(keys.partitions)) == len(keys.partitions)
    # Numbered in order of first appearance.
    assert list(dict.fromkeys(keys.codes.tolist())) == list(range(len(keys.partitions)))


def test_damaged_target_files_are_named(tmp_path: Path) -> None:
    store, path = LocalStore(), numbers_path(str(tmp_path), 1)
    write_numbers(store, str(tmp_path), 1, np.arange(50, dtype=np.int32))
    whole = store.get(path)
    for cut in range(len(whole) - 1):
        store.put(path, whole[:cut])
        with pytest.raises(CorruptFileError, match=r"numbers-00001\.arrow"):
            read_numbers(store, path)
