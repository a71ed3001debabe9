"""A verification group by group: the same verdict, less memory, and what was done is not done again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lakeidx.api.inspect.files import describe_staging
from lakeidx.api.table import Table
from lakeidx.errors import CorruptFileError
from lakeidx.quality.load import load_evidence
from lakeidx.quality.result import RuleResult
from lakeidx.quality.verify import Limits, verify
from lakeidx.quality.whole_table import Checkpoint, Verified, verify_table
from lakeidx.storage import open_store
from tests.kit.small_tables import make_table, upsert


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three partitions with 15, 4 and 3 keys; one of the 15 is deleted, one of the 4 has two versions."""
    made = make_table(tmp_path)
    upsert(made, [(1, k, "a") for k in range(15)] + [(2, k, "b") for k in range(4)] + [(3, k, "c") for k in range(3)])
    upsert(made, [(1, 0, None), (2, 1, "again")], ["-D", "+I"])
    return Table.open(made.uri)


def _verified(table: Table, **more: object) -> dict[str, RuleResult]:
    found = verify_table(Table.open(table.uri).metadata, Limits(), sample_rows=10, **more)  # type: ignore[arg-type]
    return {r.name: r for r in found.results}


def test_groups_say_what_the_whole_table_says(table: Table) -> None:
    seen: list[tuple[int, int]] = []
    found = _verified(table, rows_at_once=5, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    whole = verify(load_evidence(table.metadata), Limits())
    assert list(found) == [r.name for r in whole]
    assert {n: (r.passed, dict(r.metrics)) for n, r in found.items()} == {
        r.name: (r.passed, dict(r.metrics)) for r in whole
    }
    assert found["primary_key_once"].metrics["keys"] == 14 + 4 + 3
    assert found["files_readable"].metrics["files_decoded"] == 2 + 1 + 1 + 2
    assert found["snapshot_chain"].metrics["snapshots"] == 2


def test_small_partitions_share_a_group(table: Table) -> None:
    seen: list[int] = []
    _verified(table, rows_at_once=12, progress=lambda done, total: seen.append(total))
    assert seen == [2, 2]


def test_a_table_without_rows(tmp_path: Path) -> None:
    found = _verified(make_table(tmp_path))
    assert found["files_readable"].metrics["files_decoded"] == 0
    assert all(r.passed for r in found.values())


def test_what_one_group_finds_is_found(table: Table) -> None:
    (file,) = _data_files(table, "p=3")
    file.unlink()
    found = _verified(table, rows_at_once=5)
    assert [n for n, r in found.items() if not r.passed] == ["referenced_files_exist"]
    assert file.name in str(found["referenced_files_exist"].sample)


class _Killed(Exception):
    pass


def _interrupted(table: Table, checkpoint: Checkpoint) -> None:
    """Run until the first of three groups is done."""

    def stop(done: int, total: int) -> None:
        raise _Killed

    with pytest.raises(_Killed):
        _verified(table, rows_at_once=5, checkpoint=checkpoint, progress=stop)


def test_an_interrupted_run_resumes_where_it_was(table: Table, tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(str(tmp_path)), f"{tmp_path}/run")
    _interrupted(table, checkpoint)
    # What is done is not read again: damage that came after it is found by the run after this one.
    _flip(_data_files(table, "p=1")[0])
    found = _verified(table, rows_at_once=5, checkpoint=checkpoint)
    assert all(r.passed for r in found.values())
    assert found["primary_key_once"].metrics["keys"] == 14 + 4 + 3
    assert list((tmp_path / "run").glob("*.json")) == []
    assert not _verified(table, rows_at_once=5, checkpoint=checkpoint)["files_readable"].passed


def test_a_group_that_has_changed_since_is_read_again(table: Table, tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(str(tmp_path)), f"{tmp_path}/run")
    _interrupted(table, checkpoint)
    _flip(_data_files(table, "p=1")[0])
    upsert(Table.open(table.uri), [(1, 99, "new")])
    assert not _verified(table, rows_at_once=5, checkpoint=checkpoint)["files_readable"].passed


def test_a_checkpoint_that_is_none_is_named(table: Table, tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(str(tmp_path)), f"{tmp_path}/run")
    _interrupted(table, checkpoint)
    (file,) = (tmp_path / "run").glob("*.json")
    whole = file.read_bytes()
    for text, said in (
        (b'[{"name": "files_readable"}]', r"no results of a verification .* remove the file"),
        (b'{"results": [], "keys": "many"}', r"no results of a verification .* remove the file"),
        # What was found must not turn to what was not.
        (whole.replace(b'"passed": true', b'"passed": null', 1), r"the checksum is \d+, the file says \d+"),
    ):
        file.write_bytes(text)
        with pytest.raises(CorruptFileError, match=said) as caught:
            _verified(table, rows_at_once=5, checkpoint=checkpoint)
        assert caught.value.path == str(file)
        with pytest.raises(CorruptFileError, match=said):
            describe_staging(text, str(file))
    assert describe_staging(whole, str(file))["keys"] == 14


def test_figures_are_those_of_the_whole_table(table: Table) -> None:
    one = verify_table(table.metadata, Limits(), sample_rows=10)
    for found in (one, verify_table(table.metadata, Limits(), sample_rows=10, rows_at_once=5)):
        assert (found.snapshot_id, found.buckets, found.data_files) == (2, 4, 6)
        # The hash of the deleted key stays in the index.
        assert (found.keys, found.index_hashes, sum(found.hash_counts)) == (21, 22, 22)
        assert found.hash_counts == one.hash_counts
        assert Verified.from_json(json.loads(json.dumps(found.to_json()))) == found
    hashes = np.concatenate(list(load_evidence(table.metadata).index.values()))
    counts, _ = np.histogram(hashes, bins=64, range=(-(2**31), 2**31))
    assert one.hash_counts == tuple(counts)


def test_what_was_left_of_groups_that_changed_goes_in_the_end(table: Table, tmp_path: Path) -> None:
    checkpoint = Checkpoint(open_store(str(tmp_path)), f"{tmp_path}/run")
    _interrupted(table, checkpoint)
    upsert(Table.open(table.uri), [(1, 99, "new")])
    (tmp_path / "run" / "mine.json").write_text("{}")
    _verified(table, rows_at_once=5, checkpoint=checkpoint)
    assert [f.name for f in (tmp_path / "run").iterdir()] == ["mine.json"]


def _data_files(table: Table, partition: str) -> list[Path]:
    return sorted((Path(table.uri) / partition).rglob("data-*.parquet"))


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[20] ^= 0xFF
    file.write_bytes(data)
