"""The steps of a history: programs that share a table, some with handles that stay open, some that stop between stages.

Every step is a plain record with its own arguments, so a history is a list that can be printed, cut and run again. A step may
hold other steps, which other programs run in its middle: at its n-th call of the store.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.upsert import commit_batch, ingest_rows, write_attempt
from lakeidx.errors import CommitConflictError, InvalidInputError, LakeIdxError, NotFoundError, RejectedRowsError
from lakeidx.tasks.runner import LocalRunner
from tests.kit.reachable import reachable
from tests.kit.shared_table import calls, foreign
from tests.kit.shared_table.keys import batch_of
from tests.kit.shared_table.model import INDEX_FILES, NOTHING, Branch, Effect, identity
from tests.kit.shared_table.other_process import other_process
from tests.kit.shared_table.programs import OTHER_PROCESS, Killed, Programs, Staged, Step, expect, records_of

#: Files that a refused batch may leave: what one attempt writes.
_FILES_OF_AN_ATTEMPT = 16


class Machine(Programs):
    """Every step by its name."""

    # -- batches -----------------------------------------------------------------------------------------------

    def _effect(self, batch: str, content: int, overwrite: str | None = None) -> Effect:
        records = records_of(content, self.engine)
        if overwrite is not None:
            records = [(p, k, v, "+I") for p, k, v, _ in records]
        return Effect("batch", f"{batch}#{content}{overwrite or ''}", records, overwrite)

    def _rows(self, effect: Effect) -> Any:
        return batch_of(list(effect.records), self.engine)

    def _step_upsert(
        self,
        step: Step,
        handle: int | None,
        batch: str,
        content: int,
        overwrite: str | None = None,
        *,
        told_to: bool = False,
    ) -> None:
        """Run a whole batch; an id that was used before counts once as long as its rows are in the table.

        told_to   run again as the batch's refusal said
        """
        effect = self._effect(batch, content, overwrite)
        same_id = {b for b in self.model.newest.batches if b.split("#")[0] == batch}

        call = partial(calls.upsert, batch=batch, rows=self._rows(effect), overwrite=overwrite)
        elsewhere = any(s.name == "upsert" and s.arguments["batch"] == batch for s in step.inside)
        other_content = bool(same_id) and effect.batch not in same_id
        # One that stopped after its rows were staged counts, too, unless what it was made for is gone.
        begun = [s for s in self.staged.values() if s.batch == batch and s.stage]
        mine = [s for s in begun if s.content != content]
        outdated = not told_to and any(s.disturbed for s in begun)
        rolled_back = any(s.name == "roll_back" for s in step.inside)
        buckets = self.model.bucket
        refused = other_content or bool(mine) or batch in self.abandoned
        stale = handle in self._stale
        result, done = self.attempt(step, handle, effect, call, may_fail=refused or rolled_back or outdated)
        if outdated and not (refused or rolled_back or step.refused) and isinstance(result, LakeIdxError):
            # Its rows were staged for a table that has changed since.
            conflict = isinstance(result, CommitConflictError)
            expect(stale or (conflict and (bool(step.inside) or "run it again" in str(result))), "", result)
            self._step_upsert(Step("upsert"), None, batch, content, overwrite, told_to=True)
            return
        if rolled_back and not refused and effect.batch not in self.model.newest.batches:
            # The rollback met it half way, or took away what it had put: it comes again, and must land. Rows that are staged
            # for another number of buckets never will: then it comes under another id.
            if self.model.bucket != buckets:
                self.abandoned.add(batch)
                batch = f"{batch}-again"
            self._step_upsert(Step("upsert"), None, batch, content, overwrite)
            return
        if not done or rolled_back:
            return
        assert not other_content, f"batch id {batch!r} came again with other rows and was not refused"
        assert effect.batch in self.model.newest.batches, f"batch {effect.batch} succeeded, and its rows are not there"
        assert elsewhere or result.commit.already == (effect.batch in same_id), (
            f"batch {effect.batch}: already={result.commit.already}"
        )

    def _step_stage(self, step: Step, slot: int, handle: int, batch: str, content: int) -> None:
        """Begin a batch that is finished later."""
        if slot in self.staged or any(b.split("#")[0] == batch for b in self.model.newest.batches):
            return
        try:
            context = make_context(self.handles[handle].metadata, batch, runner=LocalRunner(1))
        except LakeIdxError as error:
            expect(handle in self._stale, "", error)
            self.reopen(handle)
            return
        staged = Staged(context, batch, content)
        staged.disturbed = handle in self._stale
        self.staged[slot] = staged

    def _step_advance(self, step: Step, slot: int, stages: int) -> None:
        """Run the next stages of a batch; one that stopped is begun again by another process, and must land."""
        staged = self.staged.get(slot)
        if staged is None:
            return
        effect = self._effect(staged.batch, staged.content)
        context = staged.context
        runs: list[Callable[[], Any]] = [
            # What jobs and Dagster run for each stage.
            lambda: ingest_rows(context, self._rows(effect), missing="null"),
            lambda: run_bucket_assignment(context, context.files.latest_attempt()),
            lambda: write_attempt(context, context.files.latest_attempt()),
            lambda: commit_batch(context, sleep=lambda _: None),
        ]
        table = Table(context.metadata.store, context.paths)
        for _ in range(min(stages, len(runs) - staged.stage)):
            try:
                with self._others(table, step, effect), self._clock():
                    report = runs[staged.stage]()
                self._after(effect)
            except Killed:
                self._after(effect)
                # Another process goes on with it.
                staged.context = make_context(self.open().metadata, staged.batch, runner=LocalRunner(1))
                return
            except LakeIdxError as error:
                self._after(effect)
                conflict = bool(step.inside) and isinstance(error, CommitConflictError)
                says_so = not step.refused or re.search(step.refused, str(error)) is not None
                expect(says_so and (staged.disturbed or conflict or self._came_with_other_rows(effect)), "", error)
                self.refused += 1
                self.tidy = False
                del self.staged[slot]
                self._step_upsert(Step("upsert"), None, staged.batch, staged.content)
                return
            step = Step(step.name, step.arguments)
            staged.stage += 1
        if staged.stage == len(runs):
            del self.staged[slot]
            assert effect.batch in self.model.newest.batches, (
                f"{effect.batch} succeeded ({report}), its rows are not there"
            )

    def _came_with_other_rows(self, effect: Effect) -> bool:
        """Return True when other rows are in the table under a batch's id."""
        same_id = {b for b in self.model.newest.batches if b.split("#")[0] == effect.batch.split("#")[0]}
        return bool(same_id - {effect.batch})

    # -- upkeep ------------------------------------------------------------------------------------------------

    def _step_compact(
        self, step: Step, handle: int | None, full: bool, shrink: bool = False, partition: int | None = None
    ) -> None:
        # What a compaction reads may be compacted by another one and expire.
        expires = any(s.name in ("expire", "roll_back") for s in step.inside)
        result, done = self.attempt(
            step,
            handle,
            Effect("compaction", partition=partition, disturbed=bool(step.inside)),
            partial(calls.compact, full=full, shrink=shrink, partition=partition),
            may_fail=expires,
        )
        fine = isinstance(result, (NotFoundError, CommitConflictError)) or handle is not None
        assert done or step.dies or fine, result
        if done and full and shrink and partition is None and not step.inside and self.has_hash_index:
            assert self.hashes() == self.hashes_of_rows(), "an index that was shrunk has hashes of no row"

    def _step_expire(self, step: Step, handle: int | None, retain: int) -> None:
        self._forget_branches()
        beside_rollback = any(s.name == "roll_back" for s in step.inside) or self._is_inside("roll_back")
        call = partial(calls.expire, retain=retain, soon=beside_rollback)
        self.attempt(step, handle, NOTHING, call, may_fail=beside_rollback)
        if step.dies:
            self.floor = self.open().metadata.earliest_hint() or 0
        for batch in self.staged.values():
            batch.disturbed = batch.disturbed or self.engine.hides_level_0

    def _step_tag(self, step: Step, handle: int | None, name: str, back: int) -> None:
        """Name a snapshot, `back` before the newest."""
        there = sorted(self.model.on_disk())
        if name in self.model.tags or not there:
            return
        snapshot_id = there[max(0, len(there) - 1 - back)]
        uuid = self.model.lineage[snapshot_id]
        expires = any(s.name == "expire" for s in step.inside) or self._is_inside("expire")
        # Java's fast-forward brings snapshots back and leaves the hint, which still says that they expire.
        expires = expires or (self.open().metadata.earliest_hint() or 0) > snapshot_id
        rolled_back = any(s.name == "roll_back" for s in step.inside) or self._is_inside("roll_back")
        call = partial(calls.tag, name=name, snapshot_id=snapshot_id)
        _, done = self.attempt(step, handle, NOTHING, call, may_fail=expires or rolled_back)
        if rolled_back:
            # It may have gone with its snapshot, or name the one that has its id now.
            path = self.root / "tag" / f"tag-{name}"
            done, uuid = path.exists(), identity(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ""
        if done:
            self.model.tags[name] = uuid

    def _is_inside(self, name: str) -> bool:
        return name in self._outer

    def _step_untag(self, step: Step, handle: int | None, name: str) -> None:
        if name not in self.model.tags:
            return
        del self.model.tags[name]
        self._forget_branches()
        self.attempt(step, handle, NOTHING, partial(calls.untag, name=name))

    def _step_clean(self, step: Step, handle: int | None) -> None:
        self.attempt(step, handle, NOTHING, calls.clean)

    def _step_clean_staging(self, step: Step) -> None:
        """Remove what is left of batches that have ended, a day later."""
        self.attempt(step, None, NOTHING, calls.clean_staging)

    def _step_index_files(self, step: Step, handle: int | None) -> None:
        effect = Effect(INDEX_FILES, disturbed=bool(step.inside))
        # A rollback to a state in which a data file had no index leaves the index to the cleaner.
        self.tidy = False
        self.attempt(step, handle, effect, partial(calls.index_files, column="text"))

    def _step_lookup_files(self, step: Step, handle: int | None) -> None:
        self.attempt(step, handle, NOTHING, calls.lookup_files)

    # -- what takes a state away -------------------------------------------------------------------------------

    def _step_roll_back(
        self, step: Step, handle: int | None, back: int, tag: str | None = None, foreign: bool = False
    ) -> None:
        """Go back to a snapshot or tag; every other program's idea of the table may be wrong after that.

        foreign   another program does, which knows neither staged batches nor what an index keeps outside the table
        """
        there = sorted(self.model.on_disk())
        if not there or (tag is not None and tag not in self.model.tags):
            return
        target = there[max(0, len(there) - 1 - back)]
        if tag is not None:
            target = next((i for i, u in self.model.lineage.items() if u == self.model.tags[tag]), -1)
            if target < 0:
                return

        where: dict[str, Any] = {"tag": tag} if tag is not None else {"snapshot_id": target}
        ids = {u: i for i, u in self.model.lineage.items()}
        gone = [n for n, u in self.model.tags.items() if ids.get(u, 0) > target]
        expires = any(s.name == "expire" for s in step.inside) or self._is_inside("expire")
        expires = expires or (target < self.floor and target in there)
        # Of a state that an expiry died in, a rollback below it cannot read which files it added: the cleaner finds them.
        self.tidy = self.tidy and not any(target < i < self.floor for i in there)
        _, done = self.attempt(
            step, handle, NOTHING, partial(calls.roll_back, where=where, foreign=foreign), may_fail=expires
        )
        if done:
            # One that came meanwhile may have been seen, or stays with its files.
            left = {p.name.removeprefix("tag-") for p in (self.root / "tag").glob("tag-*")}
            self.model.tags = {
                n: u for n, u in self.model.tags.items() if n not in gone and (n in left or not step.inside)
            }
        self._others_are_stale(handle)
        self._bucket_number_of_the_state()

    def _step_drop(self, step: Step, handle: int) -> None:
        """Remove the directory, as SQL engines do, and create the table again."""
        shutil.rmtree(self.root)
        self.on_branches.clear()
        self._create()
        self.model.dropped()
        self.reopen(handle)
        self._others_are_stale(handle)

    # -- other programs ----------------------------------------------------------------------------------------

    def _step_delete_by_vector(self, step: Step, pick: int) -> None:
        """Delete a row as Java does, without changing the list of data files."""
        if "deletion-vectors.enabled" not in self.engine.options:
            return
        table, newest = self.open(), self.model.newest
        places = foreign.deletable(table)
        keys = sorted(k for k in places if k in newest.visible and newest.visible[k] == newest.rows.get(k))
        if keys:
            key = keys[pick % len(keys)]
            foreign.delete_by_vector(table, places[key])
            self.model.observe(Effect("delete by vector", delete=key))

    def _step_branch(self, step: Step, name: str, pick: int) -> None:
        """Make a branch from a tag, as Java does."""
        tags = sorted(self.model.tags)
        if tags and name not in self.model.branches and not (self.root / "branch" / f"branch-{name}").exists():
            tag = tags[pick % len(tags)]
            foreign.make_branch(self.root, name, tag)
            uuid = self.model.tags[tag]
            self.model.branches[name] = Branch(uuid, tag, {foreign.newest_of_branch(self.root, name)[0]: uuid})

    def _step_write_on_branch(self, step: Step, name: str, batch: str, content: int) -> None:
        """Put another snapshot on a branch; the id may be one that the table itself has used, and counts there alone."""
        branch = self.model.branches.get(name)
        if branch is None or (name, batch) in self.on_branches:
            return
        bucket = self.model.states[branch.uuid].bucket
        if bucket is not None and bucket != foreign.bucket_of_branch(self.root, name):
            return  # made of an older state, whose partitions have another number of buckets: it takes no rows
        self.on_branches.add((name, batch))
        effect = self._effect(batch, content)
        effect = replace(effect, batch=f"{name}: {effect.batch}")
        foreign.write_on_branch(self.store, self.root, name, batch, self._rows(effect))
        self.model.branches[name] = self.model.on_branch(branch, effect, *foreign.newest_of_branch(self.root, name))

    def _step_fast_forward(self, step: Step, name: str) -> None:
        """Put a branch in the place of what came after it was made, as Java does."""
        branch = self.model.branches.get(name)
        if branch is None:
            return
        foreign.fast_forward(self.root, name)
        self.model.fast_forwarded(branch)
        self._forget_branches()
        self._others_are_stale(None)
        self._bucket_number_of_the_state()

    def _step_drop_branch(self, step: Step, name: str) -> None:
        self._remove_branch(name)

    def _step_expire_and_die(self, step: Step, upto: int) -> None:
        """Delete snapshots from the oldest on, as Java does, and die before the hint EARLIEST says so."""
        for snapshot_id in range(1, upto):
            (self.root / "snapshot" / f"snapshot-{snapshot_id}").unlink()

    def _forget_branches(self) -> None:
        """Keep what a branch needs by its tag alone: Java's expiry knows no branches either."""
        for name, branch in list(self.model.branches.items()):
            if branch.tag not in self.model.tags:
                self._remove_branch(name)
                # A branch that is made again under the name has none of its batches.
                self.on_branches = {b for b in self.on_branches if b[0] != name}

    def _remove_branch(self, name: str) -> None:
        """Remove a branch; what was left in place for it stays."""
        self.spared |= reachable(self.open(), branch=name)
        shutil.rmtree(self.root / "branch" / f"branch-{name}")
        self.model.branches.pop(name, None)

    def _step_add_column(self, step: Step) -> None:
        number = len(list((self.root / "schema").glob("schema-*")))
        foreign.add_column(self.root, f"more_{number}")

    def _step_foreign_clean(self, step: Step) -> None:
        """Run Java's cleaner, which leaves files of a day alone: what stopped has stopped two days ago."""
        old = time.time() - 2 * 86_400
        for report in (self.root.parents[1] / "_lakeidx").rglob("*.json"):
            os.utime(report, (old, old))
        foreign.remove_orphans(self.open())
        for batch in self.staged.values():
            batch.disturbed = True

    def _step_other_bucket_number(self, step: Step, batch: str, content: int) -> None:
        """Expect an upsert into partitions of another bucket number to be refused at once, with little left behind."""
        effect = self._effect(batch, content)
        live = {p for p, _ in self.model.newest.rows}
        if self.engine.options.get("bucket", "-1") == "-1" or not {r[0] for r in effect.records} <= live:
            return
        foreign.set_bucket(self.root, 5)
        before = self._data_files()

        call = partial(calls.upsert, batch=batch, rows=self._rows(effect))
        result, done = self.attempt(step, None, NOTHING, call, may_fail=True)
        assert not done, f"rows went into another bucket number: {result}"
        left = self._data_files() - before
        assert left <= _FILES_OF_AN_ATTEMPT, f"the refused batch left {left} data files behind"
        foreign.set_bucket(self.root, self.model.bucket)

    def _step_rescale(self, step: Step, bucket: int, batch: str, content: int) -> None:
        """Change the bucket number, with the overwrite of the whole table that it needs."""
        if self.engine.options.get("bucket", "-1") == "-1":
            return
        foreign.set_bucket(self.root, bucket)
        self.model.bucket = bucket
        for staged in self.staged.values():
            staged.disturbed = True
        self._step_upsert(step, None, batch, content, "table")

    def _bucket_number_of_the_state(self) -> None:
        """Give the table the bucket number that its state was written with again."""
        wanted = self.model.newest.bucket
        if wanted is None or wanted < 0:
            return
        self.model.bucket = wanted
        if self.open().schema.bucket != wanted:
            foreign.set_bucket(self.root, wanted)

    def _step_rejected(self, step: Step, handle: int | None, batch: str, rows: int, overwrite: str | None) -> None:
        """Expect a landing file without one good row to change nothing, whatever it was to replace."""
        path = self.root.parents[2] / f"{batch}.csv"
        names = self.open().schema.field_names
        bad = ",".join(["1", "no number", *[""] * (len(names) - 2)])
        path.write_text("\n".join([",".join(names), *[bad] * rows, ""]), encoding="utf-8")
        call = partial(calls.upsert_file, batch=batch, path=path, overwrite=overwrite)
        error, done = self.attempt(step, handle, NOTHING, call, may_fail=True)
        assert not done, "a batch without one good row succeeded"
        # A handle that was open may stop for another reason.
        assert handle is not None or isinstance(error, RejectedRowsError), error

    def _step_nan_key(self, step: Step, handle: int | None, batch: str, content: int, how: str) -> None:
        """Expect a batch with one key that is not a number to be refused, or that row of a landing file to be rejected."""
        effect = self._effect(batch, content)
        rows = self._rows(effect)
        wrong = rows.slice(0, 1).set_column(1, "k", pa.array([math.nan]))
        if how == "rows":
            call = partial(calls.upsert, batch=batch, rows=pa.concat_tables([rows, wrong]))
            error, done = self.attempt(step, handle, NOTHING, call, may_fail=True)
            assert not done, "a batch with a key that is not a number succeeded"
            # A handle that was open may stop for another reason.
            assert handle is not None or (isinstance(error, InvalidInputError) and "is NaN" in error.message), error
            return
        path = self.root.parents[2] / f"{batch}.{how}"
        both = pa.concat_tables([wrong, rows])
        if how == "parquet":
            pq.write_table(both, path)
        else:
            path.write_text(
                "".join(json.dumps(r | {"k": repr(r["k"])}) + "\n" for r in both.to_pylist()), encoding="utf-8"
            )
        call = partial(calls.upsert_file, batch=batch, path=path)
        result, done = self.attempt(step, handle, effect, call)
        assert not done or (result.ingest.rows_rejected, result.ingest.reject_reasons) == (1, {"key": 1}), result.ingest

    def _step_race(self, step: Step, batch: str, content: int, other: str) -> None:
        """Run a batch in another process, and upkeep in this one, at the same time."""
        effect = replace(self._effect(batch, content), disturbed=True)
        self._forget_branches()
        theirs = other_process()
        theirs.start(str(self.root), partial(calls.upsert, batch=batch, rows=self._rows(effect)))
        here = {"compact": partial(calls.compact, full=True), "expire": partial(calls.expire, retain=1)}[other]
        failed: LakeIdxError | None = None
        try:
            here(self.open())
        except LakeIdxError as error:
            failed = error
        answer = theirs.finish()
        self.model.observe(effect)
        expect(failed is None or isinstance(failed, CommitConflictError), "beside another process: ", failed)
        if isinstance(answer, LakeIdxError):
            expect(OTHER_PROCESS in self._stale, "in another process: ", answer)
            self.reopen(OTHER_PROCESS)
        else:
            self._stale.discard(OTHER_PROCESS)
            assert effect.batch in self.model.newest.batches, (
                f"{effect.batch} succeeded in another process, and is lost"
            )

    def _data_files(self) -> int:
        return sum(1 for _ in self.root.rglob("bucket-*/data-*"))

    def _step_threads(self, step: Step, threads: int) -> None:
        """Read small files side by side from now on."""
        self.threads = threads

    def _step_clock(self, step: Step, seconds: float) -> None:
        self.clock_s = seconds
