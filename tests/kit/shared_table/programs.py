"""The programs that share a table: handles that stay open, what happens in the middle of a step, what each must see."""

from __future__ import annotations

import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from lakeidx.api.table import Table
from lakeidx.batch.assignment import by_hash
from lakeidx.batch.context import BatchContext
from lakeidx.data import write_data_file
from lakeidx.errors import CommitConflictError, InvalidInputError, LakeIdxError
from lakeidx.format.paths import TablePaths
from lakeidx.key_index import table_view
from lakeidx.lookup.point.table_lookup import TableLookup
from lakeidx.maintenance.staging_cleanup import staged_files
from lakeidx.storage import LocalStore
from lakeidx.table.commit.commit_changes import commit_changes
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.tasks import in_parallel as in_parallel_module
from lakeidx.tasks.in_parallel import run_ordered
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore, When
from tests.kit.reachable import files_on_disk, reachable
from tests.kit.shared_table.keys import key_type, number_of, stored
from tests.kit.shared_table.model import Effect, Model, State
from tests.kit.shared_table.other_process import other_process
from tests.kit.shared_table.remembered import decoded_once
from tests.kit.table_history import FIELDS, OPTIONS, Engine, Record, index_hashes, key_hashes
from tests.kit.table_history import State as Rows

HANDLES = 3
#: The number of the handle that another process keeps open.
OTHER_PROCESS = HANDLES
#: Steps that take files away: what readers see may change, although the newest snapshot is the same.
_REMOVE = frozenset({"expire", "roll_back", "drop", "untag", "clean", "foreign_clean", "fast_forward", "race"})
_KEYS = [(p, k) for p in (1, 2) for k in range(10)]


class Killed(BaseException):
    """A program's death; nothing of the product catches it."""


@dataclass(frozen=True)
class Call:
    """The first call of the store by a verb (empty: any), with a path that has a part, when `skip` such calls were made."""

    verb: str = ""
    part: str = ""
    when: When = "before"
    skip: int = 0

    def __str__(self) -> str:
        return (
            f"{self.skip} {self.when} {self.verb or 'any'} {self.part}".rstrip()
            if self.verb or self.part
            else str(self.skip)
        )


@dataclass(frozen=True)
class Step:
    """One thing that a program does.

    inside, at   what other programs do in its middle, and at which of its calls of the store
    dies         the call at which the program dies
    refused      words of the error that it must end with; empty: what the model says decides
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    inside: tuple[Step, ...] = ()
    at: Call = Call()
    dies: Call | None = None
    refused: str = ""

    def __str__(self) -> str:
        text = f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"
        text += f" [at call {self.at}: {'; '.join(map(str, self.inside))}]" if self.inside else ""
        return text + (f" [dies at call {self.dies}]" if self.dies else "")


def records_of(content: int, engine: Engine) -> list[Record]:
    """Make the rows of a batch, by a number."""
    rng = random.Random(content)
    kinds = ["+I", "+U", "+I", "-D"] if engine.deletes else ["+I"]

    def small() -> int | None:
        return rng.choice([None, -2, 0, 1, 3])

    return [
        (*rng.choice(_KEYS), (rng.choice([None, "a", f"v{content}"]), small(), small(), small()), rng.choice(kinds))
        for _ in range(rng.randint(1, 9))
    ]


@dataclass
class Staged:
    """A batch that stopped between stages; `disturbed`: what it was made for may be gone."""

    context: BatchContext
    batch: str
    content: int
    stage: int = 0
    disturbed: bool = False


class Programs:
    """One table, the model of it, and the programs that share it."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.engine = engine
        self.root = folder / "wh" / "d.db" / "t"
        self.store = LocalStore(str(folder), sync=False)
        self.model = Model(engine, self.root)
        self.staged: dict[int, Staged] = {}
        self.on_branches: set[tuple[str, str]] = set()
        self.abandoned: set[str] = set()
        self.done: Counter[str] = Counter()
        self.clock_s = 0.0
        self.threads = 1
        self.refused = 0
        #: Snapshots below were being expired by a program that died: nobody may count on them any more.
        self.floor = 0
        self.tidy = True
        #: What was left in place for branches that are gone: a cleaner has to find it.
        self.spared: set[str] = set()
        self._turn = 0
        self._seen: str | None = None
        self._unseen = True
        self._stale: set[int | None] = set()
        self._broken: BaseException | None = None
        self._outer: tuple[str, ...] = ()
        self._asked = _asked_keys(engine)
        self._create()
        self.handles = [self.open() for _ in range(HANDLES)]
        self.lookups: list[TableLookup | None] = [None] * HANDLES

    def _create(self) -> None:
        time.sleep(0.002)  # the time of creation is part of what a table is
        fields = [{**f, "type": key_type(self.engine)} if f["name"] == "k" else f for f in FIELDS]
        spec = {"fields": fields, "primaryKeys": ["p", "k"], "partitionKeys": ["p"],
                "options": {**OPTIONS, **self.engine.options}}  # fmt: skip
        Table.create(str(self.root), spec)

    def open(self) -> Table:
        """Open a handle that has read nothing yet, as a new process has."""
        schema = TableMetadata(self.store, TablePaths(str(self.root))).latest_schema()
        return Table(FaultStore(self.store), TablePaths.of(str(self.root), schema))

    def run(self, steps: Sequence[Step]) -> None:
        """Run a history; AssertionError where it goes wrong."""
        done: list[Step] = []
        try:
            with self._threads():
                for step in steps:
                    done.append(step)
                    self._do(step)
                    self._check(step)
                self._check_newest()
                for handle, lookup in enumerate(self.lookups):
                    self._check_open(handle, self._scan if lookup is None else self._look_up)
                self._check_named_states()
                self._check_files()
        except Exception as error:
            told = "\n".join(f"  {n}. {s}" for n, s in enumerate(done))
            what = f"{type(error).__name__}: {error}"
            raise AssertionError(f"{what}\nengine {self.engine.name}, after\n{told}") from error

    def _do(self, step: Step) -> None:
        self.done[step.name] += 1
        self.tidy = self.tidy and not step.inside and (step.dies is None or step.name == "expire")
        getattr(self, f"_step_{step.name}")(step, **step.arguments)

    # -- how a program does something --------------------------------------------------------------------------

    def attempt(
        self,
        step: Step,
        handle: int | None,
        effect: Effect,
        call: Callable[[Table], Any],
        *,
        may_fail: bool = False,
    ) -> tuple[Any, bool]:
        """Run `call` with a handle (None: of a process of its own); gives its result and whether it ended well."""
        stale = handle in self._stale
        try:
            if handle == OTHER_PROCESS:
                result = self._elsewhere(call)
            else:
                table = self.open() if handle is None else self.handles[handle]
                with self._others(table, step, effect), self._clock():
                    result = call(table)
        except Killed:
            self._after(effect)
            return None, False
        except LakeIdxError as error:
            self._after(effect)
            conflict = bool(step.inside) and isinstance(error, CommitConflictError)
            says_so = bool(step.refused) and re.search(step.refused, str(error)) is not None
            expect(says_so or ((stale or may_fail or conflict) and not step.refused), "", error)
            self.reopen(handle)
            self.refused += 1
            self.tidy = self.tidy and stale
            return error, False
        self._after(effect)
        assert not step.refused, f"it was not refused: {step}"
        if handle is not None:
            self._stale.discard(handle)
        return result, True

    def _elsewhere(self, call: Callable[[Table], Any]) -> Any:
        other = other_process()
        other.start(str(self.root), call)
        answer = other.finish()
        if isinstance(answer, LakeIdxError):
            raise answer
        return answer

    def _after(self, effect: Effect) -> None:
        if self._broken is not None:
            raise self._broken
        self.model.observe(effect)

    def reopen(self, handle: int | None) -> None:
        if handle == OTHER_PROCESS:
            other_process().start(str(self.root), None)
            other_process().finish()
        elif handle is not None:
            self.handles[handle], self.lookups[handle] = self.open(), None
        self._stale -= {handle}

    @contextmanager
    def _others(self, table: Table, step: Step, effect: Effect) -> Iterator[None]:
        """Have other programs do their steps at one of the calls that `table` makes of the store."""
        store = table.store
        assert isinstance(store, FaultStore)

        def act(verb: str, path: str) -> None:
            self._outer = (*self._outer, step.name)
            try:
                self.model.observe(effect)
                for other in step.inside:
                    self._do(other)
            except BaseException as error:
                self._broken = error
                raise
            finally:
                self._outer = self._outer[:-1]

        def die(verb: str, path: str) -> None:
            raise Killed

        for call, what in ((step.at, act if step.inside else None), (step.dies, die)):
            if call is not None and what is not None:
                store.fail(call.verb or (), call.part, when=call.when, act=what, skip=call.skip)
        try:
            yield
        finally:
            store.heal()

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Read small files side by side only where a step said so: what one thread does comes in the same order each time."""

        class FewThreads(LocalRunner):
            def __init__(runner, threads: int) -> None:
                super().__init__(min(threads, self.threads))

        def ordered(*arguments: Any, threads: int, **more: Any) -> Iterator[Any]:
            return run_ordered(*arguments, threads=min(threads, self.threads), **more)

        patches: list[AbstractContextManager[Any]] = [
            mock.patch.object(in_parallel_module, "LocalRunner", FewThreads),
            mock.patch.object(table_view, "LocalRunner", FewThreads),
            mock.patch.object(by_hash, "run_ordered", ordered),
            mock.patch.object(write_data_file, "_MIN_GROUP_ROWS", 2),
            decoded_once(),
        ]
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            yield

    @contextmanager
    def _clock(self) -> Iterator[None]:
        """Make commits of this program at the time its clock shows."""
        shifted = {"clock": lambda: time.time() + self.clock_s}
        with mock.patch.dict(commit_changes.__kwdefaults__, shifted):
            yield

    def _others_are_stale(self, but: int | None) -> None:
        self._stale |= {h for h in (*range(HANDLES), OTHER_PROCESS) if h != but}
        for batch in self.staged.values():
            batch.disturbed = True

    # -- checks ------------------------------------------------------------------------------------------------

    def _check(self, step: Step) -> None:
        """Check what a new process sees, and after the next step what a handle that stayed open does; all of them at the end.

        Handles take turns, and each scans and looks up in turn. What is wrong stays wrong, so half of the checks find as much.
        """
        self._unseen |= step.name in _REMOVE or bool(step.inside) or self.model.newest_uuid != self._seen
        self._turn += 1
        if self._turn % 2 or self.model.newest.maybe:
            if self._unseen:
                self._check_newest()
            return
        turn = self._turn // 2
        self._check_open(turn % HANDLES, self._look_up if turn % 2 else self._scan)

    def _check_open(self, handle: int, see: Callable[[int], Rows]) -> None:
        """Check that a handle that stayed open sees what the model says, or stops with one line."""
        what = f"{see.__name__.strip('_')} of open handle {handle}"
        try:
            seen = see(handle)
        except LakeIdxError as error:
            expect(handle in self._stale, f"{what}: ", error)
            self.reopen(handle)
            self.refused += 1
            return
        _right(seen, self.model.newest, what)

    def _check_newest(self) -> None:
        seen = self._content(self.open().scan())
        _right(seen, self.model.newest, "what a new process sees")
        self.model.settle(seen)
        self._seen, self._unseen = self.model.newest_uuid, False

    def _content(self, scan: TableScan) -> Rows:
        return rows_of(scan, self.threads)

    def _scan(self, handle: int) -> Rows:
        return self._content(self.handles[handle].scan())

    def _look_up(self, handle: int) -> Rows:
        found = self.lookups[handle]
        if found is None:
            found = self.lookups[handle] = TableLookup(self.handles[handle].metadata)
        result = found.lookup(self._asked)
        assert not result.found[len(_KEYS) :].any(), "a key that is not a number was found"
        rows = result.rows.to_pylist()
        return {k: _values(rows[i]) for i, k in enumerate(_KEYS) if result.found[i]}

    def _check_named_states(self) -> None:
        table = self.open()
        for name, uuid in self.model.tags.items():
            _right(self._content(table.scan(tag=name)), self.model.states[uuid], f"tag {name}")
        if not self.engine.hides_level_0:
            there = self.model.on_disk()
            # What stands below a gap is of no history: Java's fast-forward may leave some.
            for snapshot_id in takewhile(there.__contains__, count(max(there, default=0), -1)):
                if snapshot_id < self.floor:
                    break
                state = self.model.states[self.model.lineage[snapshot_id]]
                _right(self._content(table.scan(snapshot=snapshot_id)), state, f"snapshot {snapshot_id}")
        for name, branch in self.model.branches.items():
            paths = TablePaths.of(str(self.root), table.schema, branch=name)
            seen = self._content(Table(self.store, paths).scan())
            _right(seen, self.model.states[branch.uuid], f"branch {name}")

    def _check_files(self) -> None:
        """Check that each key's hash is in the index, and that no file is there which nothing needs.

        Others in the middle of a step, and programs that died, leave files that a cleaner has to find.
        """
        if self.has_hash_index:
            there = self.hashes()
            assert all(hashes <= there.get(p, set()) for p, hashes in self.hashes_of_rows().items()), (
                "a key has no hash"
            )
        if not self.tidy or any(i < self.floor for i in self.model.on_disk()):
            return
        table = self.open()
        left = files_on_disk(table) - reachable(table) - self.spared
        for branch in (self.root / "branch").glob("branch-*"):
            left -= reachable(table, branch=branch.name.removeprefix("branch-"))
        staged = staged_files(table.metadata).names
        left = {f for f in left if not f.startswith(("branch/", "lookup/")) and Path(f).name not in staged}
        assert not left, f"nothing needs {sorted(left)}"

    @property
    def has_hash_index(self) -> bool:
        """Whether keys of any bucket are found by their hashes."""
        options = self.engine.options
        return bool(self.model.lineage) and options.get("bucket", "-1") == "-1" and "index.type" not in options

    def hashes(self) -> dict[int, set[int]]:
        """Return the hashes in the index by partition, of those that have any."""
        return {p: hashes for p, hashes in index_hashes(self.open()).items() if hashes}

    def hashes_of_rows(self) -> dict[int, set[int]]:
        """Return the hashes of all keys by partition."""
        keys = list(self.model.newest.rows)
        found: dict[int, set[int]] = {}
        for (p, _), key_hash in zip(keys, key_hashes(self.open(), keys), strict=True):
            found.setdefault(p, set()).add(key_hash)
        return found


def _asked_keys(engine: Engine) -> pa.Table:
    """Make the keys that lookups ask for: all of a history; of numbers that can be none, that one, too, which no table has."""
    keys = pa.table({"p": pa.array([p for p, _ in _KEYS], pa.int32()), "k": stored([k for _, k in _KEYS], engine)})
    if pa.types.is_integer(keys.schema.field("k").type):
        return keys
    return pa.concat_tables([keys, pa.table({"p": pa.array([1], pa.int32()), "k": pa.array([math.nan])})])


def expect(fine: bool, where: str, error: LakeIdxError | None) -> None:
    """Raise AssertionError for an error that nothing gave reason for.

    A batch may always be refused because nobody can know whether a branch has brought its rows back.
    """
    undecided = isinstance(error, InvalidInputError) and "may have brought it back" in error.message
    if not fine and not undecided:
        raise AssertionError(f"{where}{type(error).__name__}: {error}") from error


def _right(seen: Rows, state: State, where: str) -> None:
    wrong = state.wrong(seen)
    assert not wrong, f"{where}: (seen, wanted) by key {wrong}"


def _values(row: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    return row["text"], row["n"], row["m"], row["s"]


def rows_of(scan: TableScan, threads: int) -> Rows:
    """Read a scan's rows by key; AssertionError for a key that comes twice."""
    found = scan.to_arrow(threads=threads).to_pylist()
    out = {(r["p"], number_of(r["k"])): _values(r) for r in found}
    assert len(out) == len(found), "a key came twice"
    return out
