"""An index type of one's own: a module with a key index, one registration, and every stage of a batch works with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from lakeidx import plugins
from lakeidx.batch.index_types import TableIndex, check_index_type
from lakeidx.errors import InvalidInputError, UnsupportedError
from lakeidx.key_index.locations import CommitInfo, Int32s, KeyBatch, KeyLocations, no_locations
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import ExternalState, IndexContext, Locator
from lakeidx.key_index.registry import IndexType
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.options.descriptors import integer
from lakeidx.plugins import load_plugin
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.view import load_view
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table, upsert


class ParityOptions(IndexOptions):
    """An option of the type's own."""

    index_parity_base = integer("index.parity.base", 2, "What keys are divided by.")


@dataclass
class ParityKeyIndex(Locator, ExternalState):
    """Even keys go to bucket 0, odd ones to bucket 1; what it was told of is kept in a dictionary."""

    known: dict[tuple[bytes, int], int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    why_no_overwrite: str = "parity would still return the locations of the old keys"

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        self.calls.append("tag")
        keys = batch.keys.column("k").to_pylist()
        found = [self.known.get((batch.partitions[p], k), -1) for p, k in zip(batch.partition, keys, strict=True)]
        metrics = no_locations(batch).metrics
        return KeyLocations(
            bucket=np.array(found, np.int32), partition=batch.partition, partitions=batch.partitions,
            file=np.full(len(batch), -1, np.int32), metrics=metrics, notes={"parity_asked": float(len(batch))},
        )  # fmt: skip

    def place_inserts(self, batch: KeyBatch, context: IndexContext) -> Int32s:
        return np.asarray(pc.bit_wise_and(batch.keys.column("k"), 1)).astype(np.int32)

    def prepare_commit(self, commit: CommitInfo, context: IndexContext) -> None:
        self.calls.append("prepare")

    def update_locations(self, commit: CommitInfo, context: IndexContext) -> None:
        self.calls.append("update")
        assert commit.batch is not None
        assert commit.partition is not None
        assert commit.bucket is not None
        for p, k, b in zip(commit.partition, commit.batch.keys.column("k").to_pylist(), commit.bucket, strict=True):
            self.known[commit.partitions[p], k] = int(b)

    def close(self) -> None:
        self.calls.append("close")


#: What the entry point of the tests names; the class is one instance, to see what it was told.
MADE: list[ParityKeyIndex] = []
PARITY = IndexType(
    name="parity", make=lambda options: MADE[0], limits="Knows what it was told.", fills_buckets=False, options=ParityOptions,
    requires="index.parity.base",
)  # fmt: skip


@pytest.fixture
def parity(monkeypatch: pytest.MonkeyPatch) -> ParityKeyIndex:
    entry = EntryPoint("parity", f"{__name__}:PARITY", plugins.INDEX_TYPES)
    found = {**plugins._found(plugins.INDEX_TYPES), "parity": entry}
    monkeypatch.setattr(plugins, "_found", lambda group: found)
    monkeypatch.setattr(EntryPoint, "load", lambda self: PARITY)
    MADE[:] = [ParityKeyIndex()]
    return MADE[0]


OPTIONS = {"index.type": "parity", "index.parity.base": "2"}


def test_a_batch_runs_with_a_type_of_ones_own(tmp_path: Path, parity: ParityKeyIndex) -> None:
    table = make_table(tmp_path, options=OPTIONS)
    first = upsert(table, [(1, k, f"v{k}") for k in range(30)])
    assert (first.assign.index_type, first.assign.inserts, first.assign.new_buckets) == ("parity", 30, 2)
    assert first.assign.index_metrics["parity_asked"] == 30.0
    second = upsert(table, [(1, k, f"w{k}") for k in range(25, 35)])
    assert (second.assign.updates, second.assign.inserts, second.assign.new_buckets) == (5, 5, 0)
    run_compaction(table.metadata, LocalRunner(1), full=True)
    assert content(table) == {(1, k): f"w{k}" if k >= 25 else f"v{k}" for k in range(35)}
    places = {(e.bucket, e.file.row_count) for e in load_view(table.metadata, table.snapshot).entries}
    assert places == {(0, 18), (1, 17)}
    calls = [c for c in parity.calls if c != "close"]
    assert calls == ["tag", "prepare", "update", "tag", "prepare", "update"]
    # More keys in a bucket than dynamic-bucket.target-row-num are no finding where the key alone says the bucket.
    assert [r.name for r in verify(load_evidence(table.metadata)) if not r.passed] == []


def test_what_it_cannot_do_is_said_by_it(tmp_path: Path, parity: ParityKeyIndex) -> None:
    table = make_table(tmp_path, options=OPTIONS)
    assert TableIndex.of(table.schema).limits == "Knows what it was told."
    with pytest.raises(UnsupportedError, match="parity would still return"):
        upsert(table, [(1, 1, "a")], overwrite="table")
    with pytest.raises(InvalidInputError, match=r"'index.type' = parity needs option 'index.parity.base'"):
        check_index_type(make_table(tmp_path / "b", options={"index.type": "parity"}).schema)
    with pytest.raises(InvalidInputError, match="parity needs 'bucket' = '-1'"):
        check_index_type(make_table(tmp_path / "c", options={**OPTIONS, "bucket": "2"}).schema)


def test_options_of_a_type_are_its_own(tmp_path: Path, parity: ParityKeyIndex) -> None:
    assert isinstance(TableIndex.of(make_table(tmp_path, options=OPTIONS).schema).options, ParityOptions)
    # Other types carry them; misspelt ones are refused.
    check_index_type(make_table(tmp_path / "b", options={"index.parity.base": "3"}).schema)
    with pytest.raises(InvalidInputError, match=r"index\.parity\.base"):
        check_index_type(make_table(tmp_path / "c", options={**OPTIONS, "index.parity.bas": "2"}).schema)


@pytest.mark.parametrize("group", [plugins.INDEX_TYPES, plugins.CHANGE_FORMATS, plugins.TOOLS])
def test_a_plug_in_that_is_not_there_is_named(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match=f"no installed package has 'parity' among {group}: "):
        load_plugin(group, "parity")
    monkeypatch.setattr(plugins, "_found", lambda group: {})
    with pytest.raises(
        InvalidInputError, match=r"no plug-in is installed, not even lakeidx's own: install lakeidx with pip"
    ):
        load_plugin(group, "hbase")
    with pytest.raises(InvalidInputError, match=r"one of hash, .*install lakeidx with pip.*not 'hbase'"):
        IndexOptions({"index.type": "hbase"})
    broken = EntryPoint("broken", "no.such.module:X", group)
    monkeypatch.setattr(plugins, "_found", lambda group: {"broken": broken})
    with pytest.raises(InvalidInputError, match=r"'broken' of .* cannot be loaded from no\.such\.module:X: No module"):
        load_plugin(group, "broken")


def test_an_unregistered_type_is_unknown_again() -> None:
    with pytest.raises(InvalidInputError, match="one of hash, bucket"):
        IndexOptions({"index.type": "parity"})


@pytest.mark.parametrize("rate", ["0", "1", "few"])
def test_a_filter_that_could_not_be_built_is_refused_before_the_first_batch(rate: str) -> None:
    with pytest.raises(InvalidInputError, match=r"'hoodie\.index\.bloom\.fpp'"):
        IndexOptions({"index.type": "bloom", "hoodie.index.bloom.fpp": rate})
