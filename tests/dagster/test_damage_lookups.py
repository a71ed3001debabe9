"""Lookup files, file indexes and orphans of a real table are damaged; the checks concerned go red, and no others."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.dagster.assets.maintenance import count_orphans
from lakeidx.file_index.container import FileIndexContainer, decode_index_container, encode_index_container
from lakeidx.format.manifest import ManifestEntry
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.listing import LISTING_NAME, LookupPlaces, StoredLookup, read_listing, write_listing
from lakeidx.lookup.store import LookupFile
from lakeidx.table.view import data_file_path, load_view
from tests.dagster.damage import Damaged, after_commit, red, rows, sample, three_batches, verified
from tests.dagster.pipelines import Deployment, metrics, red_checks
from tests.unit.lookup.stores import sst_entries

pytestmark = pytest.mark.dagster

CHANGES = {
    "lookup_store": True,
    "options": {
        # Buckets of some size, so that a bit that is cleared belongs to somebody.
        "dynamic-bucket.target-row-num": 30,
        "file-index.bloom-filter.columns": "v",
        "file-index.bloom-filter.v.items": "40",
        "file-index.bitmap.columns": "v",
        "file-index.bsi.columns": "k",
        "file-index.range-bitmap.columns": "k",
        # Some containers go into the manifest, some beside the file.
        "file-index.in-manifest-threshold": "700 B",
    },
}
CHECKS = {"file_indexes_answer", "lookup_store_agrees"}


def number(value: Any) -> int:
    """The figure of an entry of Dagster's metadata."""
    assert isinstance(value.value, int)
    return value.value


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    d = Deployment(folder, CHANGES)
    three_batches(d)
    result = d.run_asset("lookup_store")
    assert result.success
    assert red_checks(result) == set()
    assert metrics(result, "lookup_store")["built"] == len(entries(d))
    again = d.run_asset("lookup_store")
    assert (metrics(again, "lookup_store")["built"], metrics(again, "lookup_store")["reused"]) == (0, len(entries(d)))
    return folder


@pytest.fixture
def damaged(healthy: Path, tmp_path: Path) -> Damaged:
    shutil.copytree(healthy, tmp_path / "copy")
    return Damaged(Deployment(tmp_path / "copy", CHANGES))


def entries(d: Deployment) -> list[ManifestEntry]:
    return sorted(load_view(d.table.metadata, d.table.snapshot).entries, key=lambda e: e.file.file_name)


def side_file(damaged: Damaged, entry: ManifestEntry) -> Path:
    folder = Path(data_file_path(damaged.deployment.table.metadata, entry)).parent
    return folder / entry.file.extra_files[0]


def test_the_healthy_table_passes_and_everything_was_asked(damaged: Damaged) -> None:
    d = damaged.deployment
    kinds = {bool(e.file.embedded_index) for e in entries(d)}
    assert kinds == {True, False}, "the table has embedded indexes and files beside"
    for found, files in ((verified(d), len(entries(d))), (after_commit(d), None)):
        assert red(found) == set()
        assert set(found) >= CHECKS
        index = found["file_indexes_answer"].metadata
        lookup = found["lookup_store_agrees"].metadata
        if files is None:
            # Only the files that the last batch has written: 26 rows, each asked with two indexes of two columns.
            files = len(added(damaged))
            assert index["lakeidx/values_asked"].value == 26 * 4 * 3
        assert index["lakeidx/files"].value == files
        assert index["lakeidx/indexes"].value == 4 * files
        assert number(lookup["lakeidx/keys_asked"]) > 40
        assert number(lookup["lakeidx/lookup_files_asked"]) > 0
        assert "lakeidx/data_files_asked" not in lookup, "what passed has no zeros"


def added(damaged: Damaged) -> list[ManifestEntry]:
    """Entries of the newest snapshot's own manifest."""
    metadata = damaged.deployment.table.metadata
    return [
        e
        for m in metadata.load_manifest_list(damaged.snapshot().delta_manifest_list)
        for e in metadata.load_manifest(m.file_name)
    ]


def first_set_bit(payload: bytes) -> bytearray:
    """A bloom filter's payload with its first bit cleared."""
    out = bytearray(payload)
    at = next(i for i in range(4, len(out)) if out[i])
    out[at] &= out[at] - 1
    return out


@pytest.mark.parametrize("checksums", [True, False])
def test_a_bit_cleared_in_a_file_index_beside_its_file(damaged: Damaged, checksums: bool) -> None:
    """With the checksum of the damaged bytes, and as Java writes it: without any. Only the answers tell."""
    entry = next(e for e in added(damaged) if e.file.extra_files)
    path = side_file(damaged, entry)
    indexes = decode_index_container(path.read_bytes(), str(path))
    bloom = indexes["v"]["bloom-filter"]
    assert bloom is not None
    path.write_bytes(encode_index_container({**indexes, "v": {**indexes["v"], "bloom-filter": bytes(first_set_bit(bloom))}},
                                      checksums=checksums))  # fmt: skip
    for found in (verified(damaged.deployment), after_commit(damaged.deployment)):
        assert red(found) == {"file_indexes_answer"}
        shown = sample(found["file_indexes_answer"])
        assert {(s["column"], s["index"], s["fault"], s["test"]) for s in shown} == {
            ("v", "bloom-filter", "denied", "=")
        }
        assert {Path(str(s["file"])).name for s in shown} == {entry.file.file_name}
        # What is shown is really in the file.
        content = damaged.deployment.content()
        assert {s["value"] for s in shown} <= set(content.values())


def test_a_file_index_with_bytes_that_do_not_match_their_checksum(damaged: Damaged) -> None:
    entry = next(e for e in entries(damaged.deployment) if e.file.extra_files)
    path = side_file(damaged, entry)
    data = bytearray(path.read_bytes())
    at = next(e for e in FileIndexContainer.from_bytes(bytes(data)).entries if e.type == "bitmap")
    data[at.start + at.length - 1] ^= 1
    path.write_bytes(data)
    found = verified(damaged.deployment)
    assert red(found) == {"file_indexes_answer"}
    shown = sample(found["file_indexes_answer"])
    assert [(s["column"], s["index"]) for s in shown] == [("v", "bitmap")]
    assert "checksum" in str(shown[0]["fault"])


def test_a_lost_file_index_is_a_lost_file(damaged: Damaged) -> None:
    entry = next(e for e in entries(damaged.deployment) if e.file.extra_files)
    side_file(damaged, entry).unlink()
    found = verified(damaged.deployment)
    assert red(found) == {"referenced_files_exist"}
    assert found["file_indexes_answer"].metadata["lakeidx/files_skipped"].value == 1


def stored(damaged: Damaged) -> tuple[Path, StoredLookup, Path]:
    """The listing that names the first lookup file of a file of the last batch, what it says of it, and where it lies."""
    table = damaged.deployment.table
    name = min(e.file.file_name for e in added(damaged))
    for listing in Path(table.uri, "lookup").rglob(LISTING_NAME):
        if one := read_listing(table.store, str(listing)).get(name):
            return listing, one, Path(LookupPlaces(table.paths).full(one.path))
    raise AssertionError(f"{name} has no lookup file")


def test_a_wrong_value_in_a_lookup_file(damaged: Damaged) -> None:
    """A whole and readable file, made anew with one other letter in the last row's text."""
    table = damaged.deployment.table
    listing, one, path = stored(damaged)
    factory = LookupStoreFactory(one.store_type, order=KeyOrder.row_compacted(table.schema.key_types))
    entries = sst_entries(path)
    keys, values = [k for k, _ in entries], [v for _, v in entries]
    at = values[-1].index(b"c")
    values[-1] = values[-1][:at] + b"x" + values[-1][at + 1 :]
    with factory.create_writer(path.with_suffix(".new"), expected_entries=len(keys)) as writer:
        writer.write(RowBytes.from_list(keys), RowBytes.from_list(values))
        made: LookupFile = writer.finish()
    Path(made.path).replace(path)
    new = replace(one, size=made.size, checksum=made.checksum)
    write_listing(table.store, str(listing), {**read_listing(table.store, str(listing)), one.data_file: new})
    for found in (verified(damaged.deployment), after_commit(damaged.deployment)):
        assert red(found) == {"lookup_store_agrees"}
        assert found["lookup_store_agrees"].metadata["lakeidx/rows_different"].value == 1
        shown = sample(found["lookup_store_agrees"])
        assert [s["fault"] for s in shown] == ["another row"]
        assert damaged.deployment.content()[int(shown[0]["p"]), int(shown[0]["k"])]
    # The stage trusts what is listed, and its check says what is wrong.
    assert red_checks(damaged.deployment.run_asset("lookup_store")) == {"lookup_store_agrees"}


def test_a_lookup_file_of_other_bytes(damaged: Damaged) -> None:
    _, _, path = stored(damaged)
    data = np.frombuffer(path.read_bytes(), np.uint8).copy()
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data.tobytes())
    found = verified(damaged.deployment)
    assert red(found) == {"lookup_store_agrees"}
    assert found["lookup_store_agrees"].metadata["lakeidx/lookup_files_unreadable"].value == 1
    assert [Path(str(s["file"])).name for s in sample(found["lookup_store_agrees"])] == [path.name]


def test_a_lookup_file_that_is_gone_is_answered_from_its_data_file(damaged: Damaged) -> None:
    _, _, path = stored(damaged)
    path.unlink()
    found = verified(damaged.deployment)
    assert red(found) == set()
    assert number(found["lookup_store_agrees"].metadata["lakeidx/data_files_asked"]) > 0


def test_a_data_file_that_is_gone_is_not_the_lookup_stores_fault(damaged: Damaged) -> None:
    entry = damaged.live_entry()
    (damaged.bucket_dir(entry) / entry.file.file_name).unlink()
    found = verified(damaged.deployment)
    assert red(found) == {"referenced_files_exist"}
    assert found["lookup_store_agrees"].metadata["lakeidx/sections_skipped"].value == 1


def test_orphans_beyond_the_limit_are_a_warning_with_the_largest_first(damaged: Damaged) -> None:
    limited = {**CHANGES, "checks": {"orphan_files": 2}}
    d = Deployment(damaged.deployment.folder, limited)
    folder = damaged.bucket_dir(damaged.live_entry())
    sizes = {f"data-00000000-0000-0000-0000-00000000000{i}-0.parquet": 10 * i for i in (1, 2, 3)}
    for name, size in sizes.items():
        (folder / name).write_bytes(b"x" * size)
    # As young as a running commit's they are nobody's fault.
    young = d.run_asset("verification")
    assert red_checks(young) == set()
    for name in sizes:
        os.utime(folder / name, (time.time() - 3 * 86_400,) * 2)
    result = d.run_asset("verification")
    assert result.success, "a warning does not fail the run"
    assert red_checks(result) == {"orphans_below_limit"}
    verdict = next(e for e in result.get_asset_check_evaluations() if e.check_name == "orphans_below_limit")
    assert verdict.severity.value == "WARN"
    sample: Any = verdict.metadata["lakeidx/sample"].value
    shown = [dict(r.data) for r in sample.records]
    assert [(Path(str(s["file"])).name, s["bytes"]) for s in shown] == sorted(sizes.items(), key=lambda item: -item[1])
    # At the limit it passes.
    (folder / next(iter(sizes))).unlink()
    assert count_orphans(d.config, d.table, int(time.time() * 1000)).passed


def test_rows_of_the_batch_are_all_that_a_run_asks(damaged: Damaged) -> None:
    """Damage in a file that the last batch has not written, in a bucket it has not touched: only a verification sees it."""
    d = damaged.deployment
    d.land("d.parquet", rows(75, 76, "d"))
    assert d.run("d.parquet").success
    fresh = {e.file.file_name for e in added(damaged)}
    old = next(e for e in entries(d) if e.file.extra_files and e.file.file_name not in fresh)
    path = side_file(damaged, old)
    path.write_bytes(path.read_bytes()[:-1])
    assert red(after_commit(d, "d.parquet")) == set()
    assert red(verified(d)) == {"file_indexes_answer"}
