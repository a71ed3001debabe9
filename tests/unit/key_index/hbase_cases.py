"""What the HBase key index must do, whether the table behind it is a stand-in (unit tests) or a real HBase (lane `hbase`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.hbase.client import HBaseLocations
from lakeidx.key_index.hbase.hbase_index import HBaseKeyIndex, file_id
from lakeidx.key_index.locations import CommitInfo
from lakeidx.key_index.port import IndexContext
from tests.unit.key_index.fake_table import FakeTable, partition_bytes

Row = tuple[str, tuple[str]]


class HBaseCases:
    """Subclasses give fixture `locations`, an empty table of locations, and `options`."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> FakeTable:
        made = FakeTable(tmp_path / "t", ("STRING",))
        # Partitions that have files.
        for name in "ab":
            made.write(name, 0, [(("zero",), 0)])
        return made

    @pytest.fixture
    def key_index(self, locations: HBaseLocations) -> HBaseKeyIndex:
        return HBaseKeyIndex(connect=lambda options, connections: locations)

    @pytest.fixture
    def context(self, table: FakeTable, options: dict[str, str]) -> IndexContext:
        return table.context(options)

    def where(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext, *keys: str
    ) -> list[tuple[str, int] | None]:
        """Locations of keys, asked for rows of partition c."""
        found = key_index.tag(table.batch([("c", (k,)) for k in keys]), context)
        names = {partition_bytes(n): n for n in "abc"}
        return [
            (names[found.partitions[p]], b) if b >= 0 else None
            for p, b in zip(found.partition.tolist(), found.bucket.tolist(), strict=True)
        ]

    def commit(
        self,
        table: FakeTable,
        key_index: HBaseKeyIndex,
        context: IndexContext,
        instant: str,
        rows: Sequence[Row],
        bucket: int,
        *,
        deleted: Sequence[bool] | None = None,
    ) -> CommitInfo:
        """The start of a commit: tagged and prepared, not yet there."""
        batch = table.batch(rows)
        commit = CommitInfo(
            instant=instant,
            batch=batch,
            partition=batch.partition,
            bucket=np.full(len(rows), bucket, np.int32),
            deleted=None if deleted is None else np.array(deleted),
            partitions=batch.partitions,
            was=key_index.tag(batch, context),
        )
        key_index.prepare_commit(commit, context)
        return commit

    def test_committed_locations_are_used(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext, locations: HBaseLocations
    ) -> None:
        assert self.where(table, key_index, context, "x") == [None]
        commit = self.commit(table, key_index, context, "one", [("a", ("x",)), ("b", ("y",))], 7)
        assert self.where(table, key_index, context, "x", "y") == [None, None]
        table.commit("one")
        key_index.update_locations(commit, context)
        assert self.where(table, key_index, context, "x", "y", "z", "x") == [("a", 7), ("b", 7), None, ("a", 7)]
        stored = locations.get([b"x"])[b"x"]
        assert (stored.commit_ts, stored.file_id, stored.partition) == ("one", file_id(7), "p=a")
        assert stored.file_id == "00000007-0000-0000-0000-000000000000-0"

    def test_updates_leave_the_inserts_commit(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext, locations: HBaseLocations
    ) -> None:
        self.commit(table, key_index, context, "one", [("a", ("x",))], 7)
        table.commit("one")
        self.commit(table, key_index, context, "two", [("a", ("x",)), ("a", ("n",))], 7)
        table.commit("two")
        found = locations.get([b"x", b"n"])
        assert (found[b"x"].commit_ts, found[b"n"].commit_ts) == ("one", "two")

    def test_a_commit_that_came_to_nothing_leaves_no_location(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext
    ) -> None:
        """However often it is tried: the believed version never falls out of HBase's versions."""
        self.commit(table, key_index, context, "one", [("a", ("x",))], 7)
        table.commit("one")
        for n in range(12):
            self.commit(table, key_index, context, f"dead-{n}", [("b", ("x",)), ("b", ("new",))], 8)
            assert self.where(table, key_index, context, "x", "new") == [("a", 7), None]
        self.commit(table, key_index, context, "alive", [("b", ("x",)), ("b", ("new",))], 9)
        assert self.where(table, key_index, context, "x", "new") == [("a", 7), None]
        table.commit("alive")
        assert self.where(table, key_index, context, "x", "new") == [("b", 9), ("b", 9)]

    def test_a_batch_that_is_tried_again(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext
    ) -> None:
        self.commit(table, key_index, context, "one", [("a", ("x",))], 7)
        table.commit("one")
        for n in range(12):
            # The bucket may differ from try to try.
            self.commit(table, key_index, context, "again", [("b", ("x",))], 8 - n % 2)
            assert self.where(table, key_index, context, "x") == [("a", 7)]
        table.commit("again")
        assert self.where(table, key_index, context, "x") == [("b", 7)]

    def test_rollback(
        self, table: FakeTable, key_index: HBaseKeyIndex, options: dict[str, str], locations: HBaseLocations
    ) -> None:
        context = table.context(options)
        self.commit(table, key_index, context, "one", [("a", ("x",)), ("a", ("y",))], 7)
        table.commit("one")
        rows = [("b", ("x",)), ("b", ("new",)), ("a", ("y",))]
        dead = self.commit(table, key_index, context, "dead", rows, 7, deleted=[False, False, True])
        key_index.rollback(dead, context)
        assert self.where(table, key_index, context, "x", "new", "y") == [("a", 7), None, ("a", 7)]
        left = locations.get([b"x", b"new", b"y"])
        assert b"new" not in left
        assert (left[b"x"].commit_ts, left[b"x"].partition) == ("one", "p=a")
        assert left[b"y"].commit_ts == "one"
        # Rolled back twice, nothing more happens.
        key_index.rollback(dead, context)
        assert self.where(table, key_index, context, "x", "new", "y") == [("a", 7), None, ("a", 7)]

    def test_deletes(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext, locations: HBaseLocations
    ) -> None:
        self.commit(table, key_index, context, "one", [("a", ("x",)), ("a", ("y",))], 7)
        table.commit("one")
        commit = self.commit(table, key_index, context, "two", [("a", ("x",))], 7, deleted=[True])
        assert self.where(table, key_index, context, "x", "y") == [("a", 7), ("a", 7)]
        table.commit("two")
        # The process may die here: the delete is believed all the same.
        assert self.where(table, key_index, context, "x", "y") == [None, ("a", 7)]
        key_index.update_locations(commit, context)
        assert self.where(table, key_index, context, "x", "y") == [None, ("a", 7)]
        assert b"x" not in locations.get([b"x"])
        self.commit(table, key_index, context, "three", [("b", ("x",))], 3)
        table.commit("three")
        # Told late of its delete, the key_index leaves the newer location alone.
        key_index.update_locations(commit, context)
        assert self.where(table, key_index, context, "x") == [("b", 3)]

    def test_last_row_of_a_key_counts(self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext) -> None:
        rows = [("a", ("x",)), ("b", ("x",)), ("a", ("y",))]
        self.commit(table, key_index, context, "one", rows, 4, deleted=[False, False, False])
        table.commit("one")
        assert self.where(table, key_index, context, "x", "y") == [("b", 4), ("a", 4)]

    def test_keys_loaded_from_the_table(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext
    ) -> None:
        batch = table.batch([("a", (f"k{i}",)) for i in range(25)])
        key_index.load(batch, np.arange(25, dtype=np.int32), context)
        assert self.where(table, key_index, context, "k3", "k24", "k25") == [("a", 3), ("a", 24), None]

    def test_keys_of_a_partition_that_is_gone(
        self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext
    ) -> None:
        self.commit(table, key_index, context, "one", [("a", ("x",)), ("b", ("y",))], 7)
        table.commit("one")
        table.drop([f.meta.file_name for f in table.live if f.partition == partition_bytes("a")])
        assert self.where(table, key_index, context, "x", "y") == [None, ("b", 7)]

    def test_rebalanced_row_keys(
        self, table: FakeTable, key_index: HBaseKeyIndex, options: dict[str, str], locations: HBaseLocations
    ) -> None:
        context = table.context({**options, "index.hbase.rebalanced": "true"})
        self.commit(table, key_index, context, "one", [("a", ("key-00000",)), ("a", ("é",))], 7)
        table.commit("one")
        assert self.where(table, key_index, context, "key-00000", "é") == [("a", 7), ("a", 7)]
        assert b"2key-00000" in locations.get([b"2key-00000"])

    def test_many_keys_in_batches(self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext) -> None:
        keys = [f"k{i:05d}" for i in range(2500)]
        self.commit(table, key_index, context, "one", [("a", (k,)) for k in keys], 7)
        table.commit("one")
        assert self.where(table, key_index, context, *keys) == [("a", 7)] * 2500

    def test_empty_keys_are_refused(self, table: FakeTable, key_index: HBaseKeyIndex, context: IndexContext) -> None:
        with pytest.raises(InvalidInputError, match="empty"):
            key_index.tag(table.batch([("a", ("",))]), context)
        assert key_index.tag(table.batch([]), context).bucket.tolist() == []
