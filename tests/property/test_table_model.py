"""Whatever happens to a table, in whatever order: every state that can be read holds what a plain dictionary says.

More and longer histories with LAKEIDX_EXAMPLES=200 in the environment.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.kit.table_history import ENGINES, Engine, History, Record, key_hashes

_EXAMPLES = int(os.environ.get("LAKEIDX_EXAMPLES", "0"))
_SMALL = st.one_of(st.none(), st.integers(-3, 3))
_VALUES = st.tuples(st.one_of(st.none(), st.sampled_from(["a", "b", "é", ""])), _SMALL, _SMALL, _SMALL)


def _batches(deletes: bool) -> st.SearchStrategy[list[Record]]:
    kinds = ["+I", "+U", "-D"] if deletes else ["+I", "+U"]
    return st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 14), _VALUES, st.sampled_from(kinds)), min_size=1, max_size=14
    )


class TableMachine(RuleBasedStateMachine):
    """All operations on one table; the engine is set by a subclass."""

    engine: Engine

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lakeidx-model-"))
        self.history = History(self.folder, self.engine)
        self.snapshots = False

    def teardown(self) -> None:
        if not hasattr(self, "history"):
            return
        try:
            if self.history.at:
                self.history.check_all()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    @rule(data=st.data())
    def upsert(self, data: st.DataObject) -> None:
        self.history.upsert(self._draw(data))

    @precondition(lambda self: len(self.history.staged) < 2)
    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        self.history.stage(self._draw(data))

    @precondition(lambda self: self.history.staged)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.history.commit(data.draw(st.sampled_from(self.history.staged)))

    @rule(data=st.data())
    def overwrite(self, data: st.DataObject) -> None:
        self.history.upsert([(r[0], r[1], r[2], "+I") for r in self._draw(data)], overwrite="partitions")

    @precondition(lambda self: self.history.at)
    @rule(full=st.booleans(), shrink=st.booleans(), only=st.sampled_from([None, None, (1,)]))
    def compact(self, full: bool, shrink: bool, only: tuple[int, ...] | None) -> None:
        self.history.compact(full=full, shrink=shrink, partitions=only)
        if full and shrink and only is None and self.history.table.schema.bucket == -1:
            live = {p: set() for p, _ in self.history.rows} | {}  # type: ignore[var-annotated]
            for (p, _), h in zip(self.history.rows, key_hashes(self.history.table, self.history.rows), strict=True):
                live[p].add(h)
            found = {p: hashes for p, hashes in self.history.index_hashes().items() if hashes}
            assert found == live

    @precondition(lambda self: self.history.at)
    @rule(retain=st.integers(1, 3))
    def expire(self, retain: int) -> None:
        self.history.expire(retain)

    @precondition(lambda self: self.history.at)
    @rule(name=st.sampled_from(["one", "two"]))
    def tag(self, name: str) -> None:
        if name in self.history.tags:
            self.history.drop_tag(name)
        else:
            self.history.tag(name)

    @precondition(lambda self: self.history.at and not self.history.staged)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        h = self.history
        if h.tags and data.draw(st.booleans()):  # type: ignore[arg-type]
            h.roll_back(tag=data.draw(st.sampled_from(sorted(h.tags))))
        else:
            h.roll_back(snapshot_id=data.draw(st.sampled_from(sorted(h.at))))

    @rule()
    def clean_orphans(self) -> None:
        self.history.clean()

    @rule()
    def reopen(self) -> None:
        self.history.reopen()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if hasattr(self, "history") and self.history.at:
            self.history.check_newest()

    def _draw(self, data: st.DataObject) -> list[Record]:
        return data.draw(_batches(self.engine.deletes))


@pytest.mark.parametrize("name", ENGINES)
def test_every_state_is_the_models(name: str) -> None:
    machine = type(f"Machine_{name}", (TableMachine,), {"engine": ENGINES[name]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=_EXAMPLES or 2,
            stateful_step_count=30 if _EXAMPLES else 12,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
