"""A real table is damaged in one way; the checks concerned go red with the right sample, and no others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import dagster as dg
import numpy as np
import pytest

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.dagster.assets.checks import NOT_BLOCKING, WARNINGS, build_specs, check_results
from lakeidx.errors import CorruptFileError
from lakeidx.format.hash_index import decode_hash_index
from lakeidx.format.manifest import ManifestEntry
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.partitions import current_batch
from lakeidx.pipeline_file.table_checks import limits_of
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from tests.dagster.damage import Damaged, after_commit, red, rows, sample, three_batches, verified
from tests.dagster.pipelines import Deployment, pipeline_dict, red_checks

pytestmark = pytest.mark.dagster

Facts = dict[str, object]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    three_batches(Deployment(folder))
    return folder


@pytest.fixture
def damaged(healthy: Path, tmp_path: Path) -> Damaged:
    shutil.copytree(healthy, tmp_path / "copy")
    return Damaged(Deployment(tmp_path / "copy"))


def test_the_healthy_table_passes(damaged: Damaged) -> None:
    assert red(verified(damaged.deployment)) == set()
    assert red(after_commit(damaged.deployment)) == set()


def drop_hash(damaged: Damaged) -> Facts:
    entry = damaged.index_entries()[0]
    dropped = int(decode_hash_index(damaged.index_file(entry).read_bytes(), "x")[0])
    damaged.rewrite_index(entry, lambda hashes: hashes[1:])
    return {"bucket": entry.bucket, "hash": dropped}


def change_index(fault: str, change: Callable[[bytes], bytes]) -> Callable[[Damaged], Facts]:
    def act(damaged: Damaged) -> Facts:
        entry = damaged.index_entries()[0]
        path = damaged.index_file(entry)
        path.write_bytes(change(path.read_bytes()))
        return {"file": entry.file_name, "fault": fault}

    return act


def lose_index(damaged: Damaged) -> Facts:
    damaged.index_file(damaged.index_entries()[0]).unlink()
    return {"fault": "missing"}


def change_data(change: Callable[[bytes], bytes] | None, **facts: object) -> Callable[[Damaged], Facts]:
    def act(damaged: Damaged) -> Facts:
        entry = damaged.live_entry()
        path = damaged.bucket_dir(entry) / entry.file.file_name
        if change is None:
            path.unlink()
        else:
            path.write_bytes(change(path.read_bytes()))
        return {"file": entry.file.file_name, **facts}

    return act


def two_buckets(damaged: Damaged) -> Facts:
    def in_another_bucket(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        entry = entries[0]
        source = damaged.bucket_dir(entry)
        other = next(d for d in sorted(source.parent.glob("bucket-*")) if d != source)
        shutil.copy(source / entry.file.file_name, other / entry.file.file_name)
        return [*entries, replace(entry, bucket=int(other.name.removeprefix("bucket-")))]

    damaged.edit_delta(in_another_bucket)
    return {}


def lose_snapshot(damaged: Damaged) -> Facts:
    (damaged.root / "snapshot" / "snapshot-2").unlink()
    return {"fault": "hole", "from": 2, "to": 2}


def tear_snapshot(damaged: Damaged) -> Facts:
    (damaged.root / "snapshot" / "snapshot-1").write_bytes(b"{")
    return {"file": "snapshot-1"}


#: Damage, which gives what the sample of the first rule shows, and the rules that fail.
DAMAGES: dict[str, tuple[Callable[[Damaged], Facts], list[str]]] = {
    "a hash dropped from an index": (drop_hash, ["live_keys_indexed"]),
    "a flipped bit in an index file": (
        change_index("damaged", lambda b: b[:-1] + bytes([b[-1] ^ 1])), ["index_files_agree", "live_keys_indexed"]
    ),
    # The file has another size, the hash it lost is missing, and both are what the manifest says otherwise.
    "an index file without its last hash": (
        change_index("of_other_size", lambda b: b[:-4]), ["index_files_agree", "referenced_files_exist", "live_keys_indexed"]
    ),
    "a lost index file": (lose_index, ["index_files_agree", "referenced_files_exist", "live_keys_indexed"]),
    "a deleted data file": (change_data(None, fault="missing"), ["referenced_files_exist"]),
    "a data file cut short": (change_data(lambda b: b[:-1], fault="of_other_size"), ["referenced_files_exist"]),
    "a data file of other bytes": (change_data(lambda b: bytes(len(b))), ["files_readable"]),
    "a data file in two buckets": (two_buckets, ["primary_key_once", "live_keys_indexed"]),
    "a hole in the chain": (lose_snapshot, ["snapshot_chain"]),
    "a snapshot that cannot be read": (tear_snapshot, ["files_readable"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_the_rules_concerned_go_red_and_no_others(damaged: Damaged, name: str) -> None:
    damage, rules = DAMAGES[name]
    facts = damage(damaged)
    found = verified(damaged.deployment)
    assert red(found) == set(rules)
    shown = [{**s, "file": Path(str(s.get("file", ""))).name} for s in sample(found[rules[0]])]
    assert any(facts.items() <= s.items() for s in shown), shown


def test_a_manifest_that_says_other_rows(damaged: Damaged) -> None:
    def more_rows(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        first = entries[0]
        return [replace(first, file=replace(first.file, row_count=first.file.row_count + 1)), *entries[1:]]

    damaged.edit_delta(more_rows)
    assert red(verified(damaged.deployment)) == {"files_readable"}
    found = after_commit(damaged.deployment)
    assert red(found) == {"files_readable", "staged_rows_committed"}
    assert sample(found["staged_rows_committed"])[0]["committed"] == 27


def test_a_manifest_that_lost_a_file(damaged: Damaged) -> None:
    lost: list[ManifestEntry] = []

    def without_first(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        lost.append(entries[0])
        return entries[1:]

    damaged.edit_delta(without_first)
    found = after_commit(damaged.deployment)
    assert "staged_rows_committed" in red(found)
    # New keys of the lost file are still indexed: their hashes have no live key.
    assert red(found) <= {"staged_rows_committed", "stale_hashes"}
    assert sample(found["staged_rows_committed"])[0]["committed"] == 26 - lost[0].file.row_count


def test_a_manifest_of_other_size(damaged: Damaged) -> None:
    snapshot = damaged.snapshot()
    damaged.put_snapshot(replace(snapshot, base_manifest_list_size=(snapshot.base_manifest_list_size or 0) + 1))
    with pytest.raises(CorruptFileError, match=r"manifest-list-\S+: the file has \d+ bytes, not \d+"):
        verified(damaged.deployment)


def test_a_skewed_partition_is_a_warning(damaged: Damaged) -> None:
    d = Deployment(damaged.deployment.folder, {"checks": {"skew_ratio": 1.01}})
    found = verified(d)
    assert red(found) == {"bucket_skew"}
    assert found["bucket_skew"].severity is dg.AssetCheckSeverity.WARN


def test_rows_that_are_not_accounted_for_stop_the_write(tmp_path: Path) -> None:
    d = Deployment(tmp_path)
    d.land("a.parquet", rows(0, 20, "a"))
    assert d.run("a.parquet", selection=["ingest", "bucket_assignment"]).success
    batch = current_batch(d.table.store, d.table.paths, ["a.parquet"])
    report = tmp_path / "wh" / "_lakeidx" / "d" / "t" / batch.batch_id / "bucket_assignment.json"
    said = json.loads(unseal(report.read_bytes()))
    report.write_bytes(seal(json.dumps({**said, "inserts": 19}).encode()))
    result = d.run("a.parquet", raise_on_error=False)
    assert red_checks(result) == {"batch_rows_accounted"}
    assert {e.asset_key.path[-1] for e in result.get_asset_materialization_events() if e.asset_key} == {
        "ingest",
        "bucket_assignment",
    }
    assert d.table.snapshot is None


def test_blocking_checks_are_those_that_mean_damage() -> None:
    names = [*WARNINGS, "hash_in_one_bucket", "live_keys_indexed", "bucket_rows_within_target", "deletes_counted"]
    names.append("iceberg_metadata")
    pipeline = PipelineConfig.model_validate(pipeline_dict(Path("/nowhere")))
    specs = {s.name: s.blocking for s in build_specs(pipeline, "commit", names)}
    assert {n for n, blocking in specs.items() if not blocking} == NOT_BLOCKING
    quiet = pipeline.model_copy(update={"checks": pipeline.checks.model_copy(update={"blocking": False})})
    assert not any(s.blocking for s in build_specs(quiet, "commit", names))


def test_every_verdict_agrees_with_its_rule(damaged: Damaged) -> None:
    """Great Expectations and the rule itself say the same, for a table with many faults at once."""
    entry = damaged.index_entries()[0]
    damaged.rewrite_index(entry, lambda hashes: np.append(hashes[1:], np.arange(300, dtype=np.int32)))
    (damaged.root / "snapshot" / "snapshot-2").unlink()
    results = verify(load_evidence(damaged.deployment.table.metadata), limits_of(damaged.deployment.config))
    verdicts = {str(r.check_name): r.passed for r in check_results(damaged.deployment.config, "verification", results)}
    assert verdicts == {r.name: r.passed for r in results}
    assert not all(verdicts.values())
