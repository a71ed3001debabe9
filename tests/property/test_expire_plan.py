"""Plans of expiry, tag deletion and rollback over random histories: nothing that stays loses a file, nothing is left over.

A model table keeps every file that was ever written on a "disk". Plans are carried out there, sometimes cut off half way.
After each step every file that a remaining snapshot or tag can reach must still be on the disk; as long as nothing was cut
off, there must be no other file on it.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.format.data_file import EMPTY_ROW, EMPTY_STATS
from lakeidx.format.index_manifest import IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.format.snapshot import CommitKind, Snapshot
from lakeidx.table.expiration.files_to_delete import DataFileKey, ExpirePlan, Role, SnapshotMetadata, live_keys
from lakeidx.table.expiration.plan import (
    ExpireInputs,
    ExpireRange,
    Retention,
    choose_range,
    plan_expire,
    tags_around,
    tags_before,
)
from lakeidx.table.expiration.rollback_plan import (
    RollbackInputs,
    TagInputs,
    plan_delete_tag,
    plan_rollback,
    tag_neighbours,
)
from tests.kit.compaction_files import a_file
from tests.kit.scalar_twins import fold_entries

HOUR = 3_600_000
Disk = set[tuple[Role, str]]


@dataclass
class State:
    """What one snapshot file says, with the content of the lists it names."""

    snapshot: Snapshot
    base: list[str]
    delta: list[str]
    changelog: list[str] = field(default_factory=list)


class Model:
    """A table of one partition: only metadata, all files by name."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.names = itertools.count()
        self.disk: Disk = set()
        self.content: dict[str, list[ManifestEntry]] = {}
        self.lists: dict[str, list[str]] = {}
        self.indexes: dict[str, list[IndexEntry]] = {}
        self.snapshots: dict[int, State] = {}
        self.tags: dict[str, State] = {}
        self.now = 0
        self.restored = False
        # Set when a plan says that it left something out.
        self.left_out = False
        # Snapshots below were being expired by a run that was cut off: nobody may count on them any more.
        self.floor = 0
        self.retention = Retention(
            num_min=self.r.randint(1, 3),
            num_max=self.r.randint(3, 8),
            time_ms=self.r.choice([0, HOUR, 4 * HOUR]),
            limit=self.r.randint(1, 6),
        )

    def fresh(self, prefix: str) -> str:
        return f"{prefix}-{next(self.names)}"

    def write(self, role: Role, name: str) -> str:
        self.disk.add((role, name))
        return name

    # -- reading, as far as the disk still has it

    def has(self, role: Role, name: str) -> bool:
        return (role, name) in self.disk

    def entries(self, manifests: list[str]) -> list[ManifestEntry] | None:
        if not all(self.has(Role.MANIFEST, m) for m in manifests):
            return None
        return [e for m in manifests for e in self.content[m]]

    def live(self, s: State) -> list[ManifestEntry]:
        found = self.entries([*s.base, *s.delta])
        assert found is not None, "a state that stays lost a manifest"
        return fold_entries(found, where="model")

    def metadata(self, s: State) -> SnapshotMetadata:
        def metas(list_name: str | None, manifests: list[str]) -> tuple[ManifestFileMeta, ...] | None:
            if list_name is None:
                return ()
            if not self.has(Role.MANIFEST, list_name):
                return None
            return tuple(
                ManifestFileMeta(
                    file_name=m,
                    file_size=1,
                    num_added_files=1,
                    num_deleted_files=0,
                    partition_stats=EMPTY_STATS,
                    schema_id=0,
                )
                for m in manifests
            )

        name = s.snapshot.index_manifest
        index = () if name is None else tuple(self.indexes[name]) if self.has(Role.MANIFEST, name) else None
        return SnapshotMetadata(
            snapshot=s.snapshot,
            base=metas(s.snapshot.base_manifest_list, s.base),
            delta=metas(s.snapshot.delta_manifest_list, s.delta),
            changelog=metas(s.snapshot.changelog_manifest_list, s.changelog),
            index=index,
        )

    # -- writing

    def manifest(self, entries: list[ManifestEntry]) -> str:
        name = self.write(Role.MANIFEST, self.fresh("manifest"))
        self.content[name] = entries
        return name

    def commit(self, entries: list[ManifestEntry], *, kind: CommitKind) -> None:
        r = self.r
        latest = self.snapshots[max(self.snapshots)] if self.snapshots else None
        base = [*latest.base, *latest.delta] if latest else []
        if len(base) > 3 and r.random() < 0.5:
            merged = self.entries(base[:3])
            assert merged is not None
            base = [self.manifest(fold_keeping_deletes(merged)), *base[3:]]
        cut = r.randint(0, len(entries))
        delta = [self.manifest(part) for part in (entries[:cut], entries[cut:]) if part]
        changelog = []
        if r.random() < 0.4:
            changelog = [self.manifest([self.new_file(FileKind.ADD, Role.CHANGELOG)])]
        index = latest.snapshot.index_manifest if latest else None
        if r.random() < 0.5:
            old = list(self.indexes[index]) if index else []
            bucket = r.randint(0, 2)
            kept = [e for e in old if e.bucket != bucket]
            name = self.write(Role.INDEX, self.fresh("index"))
            index = self.write(Role.MANIFEST, self.fresh("index-manifest"))
            added = IndexEntry(
                kind=FileKind.ADD,
                partition=EMPTY_ROW,
                bucket=bucket,
                index_type="HASH",
                file_name=name,
                file_size=4,
                row_count=1,
            )
            self.indexes[index] = [*kept, added]
        statistics = latest.snapshot.statistics if latest else None
        if r.random() < 0.2:
            statistics = self.write(Role.STATISTICS, self.fresh("stats"))
        self.now += r.choice([0, HOUR // 3, 2 * HOUR])
        snapshot_id = max(self.snapshots) + 1 if self.snapshots else 1
        snapshot = Snapshot(
            id=snapshot_id,
            schema_id=0,
            base_manifest_list=self.write(Role.MANIFEST, self.fresh("manifest-list")),
            delta_manifest_list=self.write(Role.MANIFEST, self.fresh("manifest-list")),
            changelog_manifest_list=self.write(Role.MANIFEST, self.fresh("manifest-list")) if changelog else None,
            index_manifest=index,
            commit_user="model",
            commit_identifier=snapshot_id,
            commit_kind=kind,
            time_millis=self.now,
            total_record_count=0,
            delta_record_count=0,
            statistics=statistics,
        )
        self.write(Role.SNAPSHOT, str(snapshot_id))
        self.snapshots[snapshot_id] = State(snapshot, base, delta, changelog)

    def new_file(self, kind: FileKind, role: Role = Role.DATA, level: int = 0) -> ManifestEntry:
        name = self.write(role, self.fresh(role.value))
        file = a_file(name, level)
        if role is Role.DATA and self.r.random() < 0.3:
            file = dataclasses.replace(file, extra_files=(self.write(Role.EXTRA, name + ".index"),))
        return ManifestEntry(kind=kind, partition=EMPTY_ROW, bucket=self.r.randint(0, 2), total_buckets=-1, file=file)

    def append(self) -> None:
        self.commit([self.new_file(FileKind.ADD) for _ in range(self.r.randint(0, 3))], kind=CommitKind.APPEND)

    def compact(self) -> None:
        live = self.live(self.snapshots[max(self.snapshots)])
        chosen = self.r.sample(live, self.r.randint(0, len(live)))
        deletes = [dataclasses.replace(e, kind=FileKind.DELETE) for e in chosen]
        upgraded = [e for e in chosen if self.r.random() < 0.3]
        adds = [dataclasses.replace(e, file=dataclasses.replace(e.file, level=e.file.level + 1)) for e in upgraded]
        adds += [self.new_file(FileKind.ADD, level=5) for _ in range(self.r.randint(0, 1))]
        self.commit([*deletes, *adds], kind=CommitKind.COMPACT)

    def restore(self) -> None:
        """A new snapshot with the content of an older one, as newer releases roll back."""
        if self.tags or len(self.snapshots) < 2:
            return
        older = [i for i in sorted(self.snapshots)[:-1] if i >= self.floor]
        if not older:
            return
        old = self.snapshots[self.r.choice(older)]
        now = self.live(self.snapshots[max(self.snapshots)])
        then = self.live(old)
        gone = [dataclasses.replace(e, kind=FileKind.DELETE) for e in now if e not in then]
        self.commit([*gone, *(e for e in then if e not in now)], kind=CommitKind.OVERWRITE)
        self.restored = True

    def tag(self) -> None:
        name = self.fresh("tag")
        chosen = self.r.choice([i for i in sorted(self.snapshots) if i >= self.floor])
        self.tags[name] = self.snapshots[chosen]
        self.write(Role.TAG, name)

    # -- what must be there

    def staying(self) -> list[State]:
        """Snapshots that readers may count on."""
        return [s for i, s in self.snapshots.items() if i >= self.floor]

    def reachable(self, snapshots: list[State], tags: list[State]) -> Disk:
        """Every file that these need besides their own; only snapshots, not tags, need changelogs."""
        found: Disk = set()
        for s in (*snapshots, *tags):
            m = s.snapshot
            names = [*s.base, *s.delta, m.base_manifest_list, m.delta_manifest_list, m.index_manifest]
            found |= {(Role.MANIFEST, n) for n in names if n is not None}
            found |= {(Role.INDEX, e.file_name) for e in self.indexes.get(m.index_manifest or "", [])}
            found |= {(Role.STATISTICS, m.statistics)} if m.statistics else set()
            for e in fold_entries([e for n in (*s.base, *s.delta) for e in self.content[n]], where="model"):
                found |= {(Role.DATA, e.file.file_name), *((Role.EXTRA, x) for x in e.file.extra_files)}
        for s in snapshots:
            if s.snapshot.changelog_manifest_list is not None:
                found |= {(Role.MANIFEST, n) for n in (*s.changelog, s.snapshot.changelog_manifest_list)}
                found |= {(Role.CHANGELOG, e.file.file_name) for n in s.changelog for e in self.content[n]}
        return found

    def check(self) -> None:
        reachable = self.reachable(self.staying(), list(self.tags.values()))
        reachable |= {(Role.SNAPSHOT, str(i)) for i in self.snapshots} | {(Role.TAG, n) for n in self.tags}
        assert reachable <= self.disk, sorted(reachable - self.disk)
        if not self.half_gone() and not self.restored and not self.left_out:
            assert self.disk == reachable, sorted(self.disk - reachable)

    def half_gone(self) -> bool:
        return any(i < self.floor for i in self.snapshots)

    # -- carrying plans out

    def apply(self, plan: ExpirePlan, snapshots: list[State], tags: list[State], *, crash: bool) -> None:
        """Delete phase by phase, any order inside a phase; a crash leaves a random end of it undone.

        snapshots, tags   what stays: nothing of theirs may go
        """
        unneeded = [(f.role, f.name) for f in plan.files]
        assert len(set(unneeded)) == len(unneeded), "a file is named twice"
        lost = self.reachable(snapshots, tags) & set(unneeded)
        assert not lost, lost
        phases = [list(p) for p in plan.phases]
        for phase in phases:
            self.r.shuffle(phase)
        files = [f for phase in phases for f in phase]
        for f in files[: self.r.randint(0, len(files))] if crash else files:
            self.disk.discard((f.role, f.name))
            if f.role is Role.SNAPSHOT:
                self.snapshots.pop(int(f.name))
            if f.role is Role.TAG:
                self.tags.pop(f.name)

    def by_snapshot(self) -> dict[int, State]:
        return {s.snapshot.id: s for s in self.tags.values()}

    def expire(self, *, crash: bool) -> None:
        consumers = [self.r.choice(list(self.snapshots))] if self.r.random() < 0.2 else []
        consumers = [max(c, self.floor) for c in consumers]
        times = {i: s.snapshot.time_millis for i, s in self.snapshots.items()}
        chosen = choose_range(times, self.retention, now_ms=self.now + HOUR // 2, consumers=consumers)
        assert chosen is not None
        assert chosen == plain_range(times, self.retention, self.now + HOUR // 2, consumers)
        if chosen.is_empty:
            return
        tagged = self.by_snapshot()
        inside = [i for i in sorted(self.snapshots) if i < chosen.end]
        inputs = ExpireInputs(
            range=chosen,
            expiring=[self.metadata(self.snapshots[i]) for i in inside],
            end=self.metadata(self.snapshots[chosen.end]),
            deltas={i: self.entries(self.snapshots[i].delta) for i in (*inside[1:], chosen.end)},
            later=[e for i, s in self.snapshots.items() if i > chosen.end for e in self.entries(s.delta) or ()],
            changelogs={i: self.entries(s.changelog) for i in inside if (s := self.snapshots[i]).changelog},
            tags=[self.metadata(tagged[t]) for t in tags_around(sorted(tagged), chosen)],
            tag_files={t: live_keys(self.live(tagged[t])) for t in tags_before(sorted(tagged), chosen)},
        )
        plan = plan_expire(inputs, retention=self.retention, tag_ids=sorted(tagged))
        assert plan.snapshots_gone == tuple(inside)
        assert plan.earliest_hint == chosen.end
        self.floor = max(self.floor, chosen.end)
        self.apply(plan, self.staying(), list(self.tags.values()), crash=crash)

    def used_by(self, states: list[State]) -> frozenset[DataFileKey] | None:
        """Live files of all states; None when one cannot be read any more."""
        if any(self.entries([*s.base, *s.delta]) is None for s in states):
            return None
        return frozenset(k for s in states for k in live_keys(self.live(s)))

    def delete_tag(self) -> None:
        name = self.r.choice(sorted(self.tags))
        state = self.tags[name]
        snapshot_id = state.snapshot.id
        others = [t for n, t in self.tags.items() if n != name]
        inputs = None
        shared = any(t.snapshot.id == snapshot_id for t in others)
        if not shared and snapshot_id not in self.snapshots:
            tagged = self.by_snapshot()
            left, right = tag_neighbours(snapshot_id, tagged, min(self.snapshots))
            states = [tagged[left]] if left is not None else []
            if right is not None:
                states.append(tagged[right] if right in tagged else self.snapshots[right])
            inputs = TagInputs(
                tag=self.metadata(state),
                entries=self.live(state),
                neighbours=[self.metadata(s) for s in states],
                used=self.used_by(states),
            )
        plan = plan_delete_tag(name, inputs)
        # The neighbour may be a snapshot that a cut-off run has begun to take apart.
        assert not plan.notes or self.half_gone()
        self.left_out |= bool(plan.notes)
        self.apply(plan, self.staying(), others, crash=False)

    def roll_back(self) -> None:
        choices = [s for s in (*self.staying(), *self.tags.values()) if s.snapshot.id < max(self.snapshots)]
        if not choices:
            return
        target = self.r.choice(choices)
        target_id = target.snapshot.id
        dropped = [s for i, s in sorted(self.snapshots.items()) if i > target_id]
        dropped_tags = {n: t for n, t in self.tags.items() if t.snapshot.id > target_id}
        kept_tags = [t for t in self.tags.values() if t.snapshot.id <= target_id]
        oldest = [self.live(dropped[0])] if target_id not in self.snapshots else []
        entries = [e for s in dropped for e in self.entries(s.delta) or ()]
        entries += [e for part in (*oldest, *(self.live(t) for t in dropped_tags.values())) for e in part]
        retained = [s for i, s in self.snapshots.items() if i <= target_id]
        used = {k for s in (target, *kept_tags) for k in live_keys(self.live(s))}
        used |= {k for s in retained for k in live_keys(self.entries(s.delta) or ())}
        plan = plan_rollback(
            RollbackInputs(
                target=self.metadata(target),
                target_exists=target_id in self.snapshots,
                dropped=[self.metadata(s) for s in dropped],
                dropped_tags={n: self.metadata(t) for n, t in dropped_tags.items()},
                entries=entries,
                changelog_entries=[e for s in dropped for e in self.entries(s.changelog) or ()],
                used=used,
                kept=[self.metadata(t) for t in kept_tags],
            )
        )
        assert plan.latest_hint == target_id
        if plan.restore_snapshot is not None:
            assert plan.restore_snapshot.changelog_manifest_list is None
            self.snapshots[target_id] = State(plan.restore_snapshot, target.base, target.delta)
            self.write(Role.SNAPSHOT, str(target_id))
        staying = [s for i, s in self.snapshots.items() if self.floor <= i <= target_id]
        self.apply(plan, staying, kept_tags, crash=False)
        assert max(self.snapshots) == target_id
        self.floor = min(self.floor, target_id)


def plain_range(times: dict[int, int], keep: Retention, now: int, consumers: list[int]) -> ExpireRange:
    """The rules of expiry one id after another, without arithmetic on bounds."""
    ids = sorted(times)
    for position, i in enumerate(ids):
        newer = ids[-1] - i
        protected = newer < keep.num_min or any(i >= c for c in consumers) or i - ids[0] >= keep.limit
        by_age = now - keep.time_ms > times[ids[position + 1]] if position + 1 < len(ids) else False
        if protected or not (by_age or newer >= keep.num_max):
            return ExpireRange(ids[0], i)
    raise AssertionError("the newest snapshot is always kept")


def fold_keeping_deletes(entries: list[ManifestEntry]) -> list[ManifestEntry]:
    """Merge manifests as a commit does: pairs of ADD and DELETE vanish, a DELETE of an earlier file stays."""
    out: dict[object, ManifestEntry] = {}
    for e in entries:
        if e.kind is FileKind.DELETE and e.identifier in out and out[e.identifier].kind is FileKind.ADD:
            del out[e.identifier]
        else:
            out[e.identifier] = e
    return list(out.values())


def run(seed: int, steps: int, *, crashes: bool, restores: bool) -> Model:
    m = Model(seed)
    m.append()
    for _ in range(steps):
        what = m.r.random()
        if what < 0.35:
            m.append()
        elif what < 0.6:
            m.compact()
        elif what < 0.66 and restores:
            m.restore()
        elif what < 0.76 and not m.restored:
            m.tag()
        elif what < 0.8 and m.tags:
            m.delete_tag()
        elif what < 0.84 and not m.restored and not m.half_gone():
            m.roll_back()
        else:
            m.expire(crash=crashes and m.r.random() < 0.4)
        m.check()
    return m


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40), crashes=st.booleans(), restores=st.booleans())
def test_nothing_that_stays_loses_a_file_and_nothing_is_left_over(
    seed: int, steps: int, crashes: bool, restores: bool
) -> None:
    run(seed, steps, crashes=crashes, restores=restores)


def test_the_histories_expire_tag_and_crash() -> None:
    """The model reaches what the property speaks of."""
    expired = tagged = cut = 0
    for seed in range(150):
        m = run(seed, 40, crashes=True, restores=False)
        expired += min(m.snapshots) > 1
        tagged += any(t.snapshot.id < min(m.snapshots) for t in m.tags.values())
        cut += m.half_gone()
    assert expired > 100
    assert tagged > 20
    assert cut > 5
