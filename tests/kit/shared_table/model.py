"""What a table must hold, snapshot by snapshot: a snapshot is known by its uuid, its state follows from the one before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.kit.table_history import Engine, Key, Record, Values
from tests.kit.table_history import State as Rows


@dataclass(frozen=True)
class State:
    """One state of the table.

    rows      every committed record merged, key by key
    visible   what readers see; differs from `rows` where level 0 is hidden
    batches   names of the batches whose rows are in it
    bucket    bucket number of its files; None where every partition has its own
    maybe     what readers may see instead, key by key: every committed record at the time of a compaction that others wrote in
              the middle of. In buckets that it had not planned the rows may still be hidden
    """

    rows: Rows = field(default_factory=dict)
    visible: Rows = field(default_factory=dict)
    batches: frozenset[str] = frozenset()
    bucket: int | None = None
    maybe: tuple[Rows, ...] = ()

    def wrong(self, seen: Rows) -> dict[Key, tuple[Values | None, Values | None]]:
        """Return (seen, wanted) of every key that a reader must not see so."""
        out = {}
        for key in {*seen, *self.visible, *self.rows}:
            have, wanted = seen.get(key), self.visible.get(key)
            if have != wanted and all(have != rows.get(key) for rows in self.maybe):
                out[key] = (have, wanted)
        return out


@dataclass(frozen=True)
class Effect:
    """What a program that is at work does to the state its snapshot follows.

    batch       name of the batch; empty for everything else
    records     rows of the batch
    overwrite   None, "partitions" or "table"
    delete      key that somebody deletes by deletion vector
    partition   the only one that is compacted; None: all are
    disturbed   others do something in the middle of it
    """

    what: str
    batch: str = ""
    records: Sequence[Record] = ()
    overwrite: str | None = None
    delete: Key | None = None
    partition: int | None = None
    disturbed: bool = False


@dataclass(frozen=True)
class Branch:
    """A branch: identity of its newest snapshot, the tag it was made from, its snapshots (id -> uuid)."""

    uuid: str
    tag: str
    lineage: dict[int, str]


NOTHING = Effect("nothing")
#: What gives data files an index, and shows nobody more rows than before.
INDEX_FILES = "index files"


def identity(snapshot: dict[str, Any]) -> str:
    """Return the uuid of a snapshot file's content; of one that Java has put without it, the name of a file that only it has."""
    return str(snapshot.get("uuid") or snapshot["deltaManifestList"])


class Model:
    """The states of one table directory.

    lineage   snapshot id -> uuid, the history that the newest snapshot ends, also what has expired of it
    """

    def __init__(self, engine: Engine, root: Path) -> None:
        self.engine = engine
        self.root = root
        self.states: dict[str, State] = {}
        self.lineage: dict[int, str] = {}
        self.tags: dict[str, str] = {}
        self.branches: dict[str, Branch] = {}
        self.bucket = int(engine.options.get("bucket", "-1"))

    @property
    def newest(self) -> State:
        """What the newest snapshot holds."""
        return self.states[self.lineage[max(self.lineage)]] if self.lineage else State()

    @property
    def newest_uuid(self) -> str:
        """Identity of the newest snapshot; empty without one."""
        return self.lineage[max(self.lineage)] if self.lineage else ""

    def on_disk(self) -> dict[int, dict[str, Any]]:
        """List the snapshot files as they are now, by id."""
        found = ((p.name.removeprefix("snapshot-"), p) for p in (self.root / "snapshot").glob("snapshot-*"))
        return {int(n): json.loads(p.read_text(encoding="utf-8")) for n, p in found if n.isdigit()}

    def settle(self, seen: Rows) -> None:
        """Record that what the newest snapshot shows is what it holds, where that was open; call after `State.wrong`."""
        if self.lineage and self.newest.maybe:
            uuid = self.lineage[max(self.lineage)]
            self.states[uuid] = replace(self.newest, visible=seen, maybe=())

    def dropped(self) -> None:
        """Record that the table is another one now."""
        self.lineage, self.tags, self.branches = {}, {}, {}
        self.bucket = int(self.engine.options.get("bucket", "-1"))

    def on_branch(self, branch: Branch, effect: Effect, snapshot_id: int, uuid: str) -> Branch:
        """Record a batch on a branch."""
        self.states[uuid] = self._with_batch(self.states[branch.uuid], effect)
        return Branch(uuid, branch.tag, {**branch.lineage, snapshot_id: uuid})

    def fast_forwarded(self, branch: Branch) -> None:
        """Record that a branch has the place of every snapshot and tag from its first one on."""
        first = min(branch.lineage)
        self.lineage = {i: u for i, u in self.lineage.items() if i < first} | branch.lineage
        there = {p.name.removeprefix("tag-"): p for p in (self.root / "tag").glob("tag-*")}
        self.tags = {n: identity(json.loads(p.read_text(encoding="utf-8"))) for n, p in there.items()}

    def observe(self, effect: Effect) -> None:
        """Take note of new snapshots: all were put by the program whose effect this is. AssertionError for one too many."""
        there = self.on_disk()
        top = max(there, default=0)
        self.lineage = {i: u for i, u in self.lineage.items() if i <= top}
        for snapshot_id in sorted(there):
            snapshot = there[snapshot_id]
            uuid = identity(snapshot)
            if uuid not in self.states:
                before = self.states[self.lineage[snapshot_id - 1]] if snapshot_id - 1 in self.lineage else State()
                self.states[uuid] = self._after(before, effect, snapshot["commitKind"])
            self.lineage[snapshot_id] = uuid

    def _after(self, before: State, effect: Effect, kind: str) -> State:
        if effect.delete is not None:
            rows, visible, *maybe = (_without(r, effect.delete) for r in (before.rows, before.visible, *before.maybe))
            return replace(before, rows=rows, visible=visible, maybe=tuple(maybe))
        if effect.what == INDEX_FILES:
            return before
        if kind == "COMPACT":
            beside = bool(effect.batch) and effect.batch not in before.batches
            if effect.disturbed and self.engine.hides_level_0 and not beside:
                return replace(before, maybe=(*before.maybe, before.rows))
            return _compacted(before, effect.partition)
        assert effect.batch, f"a snapshot of kind {kind} was put while the program at work was to do: {effect.what}"
        assert effect.batch not in before.batches, f"batch {effect.batch} was committed twice"
        return self._with_batch(before, effect)

    def _with_batch(self, before: State, effect: Effect) -> State:
        rows, visible, maybe = dict(before.rows), dict(before.visible), before.maybe
        if effect.overwrite is not None:
            touched = {r[0] for r in effect.records} if effect.overwrite == "partitions" else {k[0] for k in rows}
            touched |= {r[0] for r in effect.records}
            rows = {k: v for k, v in rows.items() if k[0] not in touched}
            visible = {k: v for k, v in visible.items() if k[0] not in touched}
            maybe = tuple({k: v for k, v in r.items() if k[0] not in touched} for r in maybe)
        for p, k, values, kind in effect.records:
            merged = self.engine.merge(rows.get((p, k)), values, kind)
            if merged is None:
                rows.pop((p, k), None)
            else:
                rows[(p, k)] = merged
        if not self.engine.hides_level_0:
            visible, maybe = dict(rows), ()
        elif effect.overwrite is not None:
            # Files that replace everything of their partitions overlap nothing: Java upgrades them to the top level.
            new = {k: v for k, v in rows.items() if k[0] in touched}
            visible, maybe = visible | new, tuple(r | new for r in maybe)
        return State(rows, visible, before.batches | {effect.batch}, self.bucket, maybe)


def _compacted(before: State, partition: int | None) -> State:
    """Show all rows of one partition; None: of all."""
    if partition is None:
        return replace(before, visible=dict(before.rows), maybe=())
    new = {k: v for k, v in before.rows.items() if k[0] == partition}
    visible, *maybe = (
        {k: v for k, v in rows.items() if k[0] != partition} | new for rows in (before.visible, *before.maybe)
    )
    return replace(before, visible=visible, maybe=tuple(maybe))


def _without(rows: Rows, key: Key) -> Rows:
    return {k: v for k, v in rows.items() if k != key}
