"""A real table is damaged in one way; the checks concerned go red with the right sample, and no others."""

from __future__ import annotations

import json
import shutil
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


def test_a_hash_dropped_from_an_index(damaged: Damaged) -> None:
    entry = damaged.index_entries()[0]
    dropped = int(decode_hash_index(damaged.index_file(entry).read_bytes(), "x")[0])
    damaged.rewrite_index(entry, lambda hashes: hashes[1:])
    found = verified(damaged.deployment)
    assert red(found) == {"live_keys_indexed"}
    assert [(s["bucket"], s["hash"]) for s in sample(found["live_keys_indexed"])] == [(entry.bucket, dropped)]


def test_a_hash_copied_to_a_second_bucket(damaged: Damaged) -> None:
    first, second = [e for e in damaged.index_entries() if e.partition == damaged.index_entries()[0].partition][:2]
    copied = int(decode_hash_index(damaged.index_file(first).read_bytes(), "x")[0])
    damaged.rewrite_index(second, lambda hashes: np.append(hashes, np.int32(copied)))
    found = verified(damaged.deployment)
    expected = {"hash_in_one_bucket"} | ({"bucket_rows_within_target"} if second.row_count == 10 else set())
    assert red(found) == expected
    assert [s["hash"] for s in sample(found["hash_in_one_bucket"])] == [copied]
    assert sample(found["hash_in_one_bucket"])[0]["buckets"] == str(sorted([first.bucket, second.bucket]))


def test_a_hash_twice_in_one_index(damaged: Damaged) -> None:
    entry = min(damaged.index_entries(), key=lambda e: e.row_count)
    entry = damaged.rewrite_index(entry, lambda hashes: np.append(hashes, hashes[:1]))
    found = verified(damaged.deployment)
    assert red(found) == {"index_files_agree"}
    assert [(s["file"], s["fault"]) for s in sample(found["index_files_agree"])] == [(entry.file_name, "with_repeats")]


def test_a_flipped_bit_in_an_index_file(damaged: Damaged) -> None:
    entry = damaged.index_entries()[0]
    path = damaged.index_file(entry)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    found = verified(damaged.deployment)
    assert red(found) == {"index_files_agree", "live_keys_indexed"}
    assert [(s["file"], s["fault"]) for s in sample(found["index_files_agree"])] == [(entry.file_name, "damaged")]


@pytest.mark.parametrize("cut", [4, 3])
def test_a_truncated_index_file(damaged: Damaged, cut: int) -> None:
    entry = damaged.index_entries()[0]
    path = damaged.index_file(entry)
    path.write_bytes(path.read_bytes()[:-cut])
    found = verified(damaged.deployment)
    # The file has another size, the hash it lost is missing, and both are what the manifest says otherwise.
    assert red(found) == {"index_files_agree", "referenced_files_exist", "live_keys_indexed"}
    assert {s["file"] for s in sample(found["index_files_agree"])} == {entry.file_name}
    assert [Path(str(s["file"])).name for s in sample(found["referenced_files_exist"])] == [entry.file_name]


def test_a_lost_index_file(damaged: Damaged) -> None:
    entry = damaged.index_entries()[0]
    damaged.index_file(entry).unlink()
    found = verified(damaged.deployment)
    assert red(found) == {"index_files_agree", "referenced_files_exist", "live_keys_indexed"}
    assert [s["fault"] for s in sample(found["index_files_agree"])] == ["missing"]


def test_a_deleted_data_file(damaged: Damaged) -> None:
    entry = damaged.live_entry()
    (damaged.bucket_dir(entry) / entry.file.file_name).unlink()
    found = verified(damaged.deployment)
    assert red(found) == {"referenced_files_exist"}
    assert [(Path(str(s["file"])).name, s["fault"]) for s in sample(found["referenced_files_exist"])] == [
        (entry.file.file_name, "missing")
    ]


def test_a_data_file_cut_short(damaged: Damaged) -> None:
    entry = damaged.live_entry()
    path = damaged.bucket_dir(entry) / entry.file.file_name
    path.write_bytes(path.read_bytes()[:-1])
    found = verified(damaged.deployment)
    assert red(found) == {"referenced_files_exist"}
    assert sample(found["referenced_files_exist"])[0]["found"] == entry.file.file_size - 1


def test_a_data_file_of_other_bytes(damaged: Damaged) -> None:
    entry = damaged.live_entry()
    path = damaged.bucket_dir(entry) / entry.file.file_name
    path.write_bytes(b"\0" * entry.file.file_size)
    found = verified(damaged.deployment)
    assert red(found) == {"files_readable"}
    assert Path(str(sample(found["files_readable"])[0]["file"])).name == entry.file.file_name


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


def test_a_data_file_in_two_buckets(damaged: Damaged) -> None:
    def in_another_bucket(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        entry = entries[0]
        source = damaged.bucket_dir(entry)
        other = next(d for d in sorted(source.parent.glob("bucket-*")) if d != source)
        shutil.copy(source / entry.file.file_name, other / entry.file.file_name)
        return [*entries, replace(entry, bucket=int(other.name.removeprefix("bucket-")))]

    damaged.edit_delta(in_another_bucket)
    found = verified(damaged.deployment)
    assert red(found) == {"primary_key_once", "live_keys_indexed"}
    assert all(len(json.loads(s["buckets"])) == 2 for s in sample(found["primary_key_once"]))


def test_a_key_twice_in_one_level(damaged: Damaged) -> None:
    def twice(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        entry = next(e for e in entries if len(list(damaged.bucket_dir(e).iterdir())) == 1)
        entries.remove(entry)
        folder = damaged.bucket_dir(entry)
        shutil.copy(folder / entry.file.file_name, folder / f"copy-{entry.file.file_name}")
        top = replace(entry.file, level=5, delete_row_count=0)
        return [
            *entries,
            replace(entry, file=top),
            replace(entry, file=replace(top, file_name=f"copy-{entry.file.file_name}")),
        ]

    damaged.edit_delta(twice)
    found = verified(damaged.deployment)
    assert "primary_key_once" in red(found)
    assert red(found) <= {"primary_key_once", "files_readable"}


def test_a_forged_snapshot(damaged: Damaged) -> None:
    snapshot = damaged.snapshot()
    damaged.put_snapshot(
        replace(snapshot, id=snapshot.id + 1, total_record_count=(snapshot.total_record_count or 0) + 5)
    )
    found = verified(damaged.deployment)
    assert red(found) == {"snapshot_chain"}
    assert {s["fault"] for s in sample(found["snapshot_chain"])} >= {"total_does_not_add_up"}


def test_a_hole_in_the_chain(damaged: Damaged) -> None:
    (damaged.root / "snapshot" / "snapshot-2").unlink()
    found = verified(damaged.deployment)
    assert red(found) == {"snapshot_chain"}
    assert [(s["fault"], s["from"], s["to"]) for s in sample(found["snapshot_chain"])] == [("hole", 2, 2)]


def test_a_snapshot_that_cannot_be_read(damaged: Damaged) -> None:
    (damaged.root / "snapshot" / "snapshot-1").write_bytes(b"{")
    found = verified(damaged.deployment)
    assert red(found) == {"files_readable"}
    assert Path(str(sample(found["files_readable"])[0]["file"])).name == "snapshot-1"


def test_an_index_that_grew_beyond_its_target(damaged: Damaged) -> None:
    entry = damaged.index_entries()[0]
    damaged.rewrite_index(entry, lambda hashes: np.append(hashes, np.arange(300, dtype=np.int32)))
    found = verified(damaged.deployment)
    assert red(found) == {"bucket_rows_within_target", "stale_hashes"} | (red(found) & {"bucket_skew"})
    assert sample(found["bucket_rows_within_target"])[0]["bucket"] == entry.bucket
    assert found["stale_hashes"].severity is dg.AssetCheckSeverity.WARN


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
