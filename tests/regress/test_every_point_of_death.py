"""Work that was cut off anywhere and run again ends in the same table: every stage of a batch, and upkeep.

Every put, delete, list and finished file is a point of death, before it and after it, resumed by the same program; every one that
changes the store, after it, resumed by another.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.api.warehouse import drop_table
from lakeidx.batch.artifacts import staging_root
from lakeidx.batch.context import make_context
from lakeidx.batch.index_types import index_folder
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.consumer import encode_consumer
from lakeidx.format.schema.edits import SchemaEdits
from lakeidx.maintenance.alter import alter_table
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.maintenance.file_index_rebuild import rebuild_spec, run_file_index_rebuild
from lakeidx.maintenance.lookup_store import run_lookup_store
from lakeidx.maintenance.ring_resize import run_ring_resize
from lakeidx.maintenance.rollback import roll_back_table
from lakeidx.maintenance.staging_cleanup import clean_orphans, clean_staging
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.tasks.runner import LocalRunner
from lakeidx.testing.fault_store import FaultStore, When
from tests.kit.reachable import files_on_disk, reachable
from tests.kit.share import WHOLE, share_of
from tests.kit.small_tables import content, keep_newest, make_table, rows, upsert
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.slow

LATER_MS = 4_000_000_000_000
#: What changes a store, and the listings that decisions rest on.
CHANGES = ("put", "put_if_absent", "delete", "delete_empty_dir", "open_output", "close_output")
VERBS = (*CHANGES, "list", "walk")

#: Share of the calls of one run that every other run of the work makes, too.
ALWAYS = 0.8
WHEN: tuple[When, ...] = ("before", "after")
#: When a program dies, at which calls, and whether another one goes on. The other knows the store only: that is before a call what
#: it was after the last one that changed it.
WAYS: tuple[tuple[When, tuple[str, ...], bool], ...] = (
    ("before", VERBS, False),
    ("after", VERBS, False),
    ("after", CHANGES, True),
)
Rows = dict[tuple[int, int], str | None]


class Died(BaseException):
    """The process is gone; nothing may catch it as an error."""


@dataclass(frozen=True)
class Work:
    """Something that may be cut off anywhere.

    run        does it, or finishes it
    expected   rows afterwards
    tagged     rows of tag "t" afterwards; None = there is none
    options    options of its table beside the others
    """

    run: Callable[[Table], object]
    expected: Rows
    tagged: Rows | None = None
    options: Mapping[str, str] = field(default_factory=dict)


START: Rows = {**{(1, k): "3" if k < 2 else "2" for k in range(4)}, (2, 0): "1"}
AT_2: Rows = {**{(1, k): "2" for k in range(4)}, (2, 0): "1"}
NEW = [(1, 0, "new"), (1, 9, "new"), (3, 1, "new")]


def build(folder: Path, options: Mapping[str, str]) -> Table:
    """Three batches, a compaction after the second, tag t on snapshot 2, a consumer that nobody moves."""
    retention = {"snapshot.num-retained.min": "1", "consumer.expiration-time": "1 h"}
    table = make_table(folder, options={"bucket": "-1", **retention, **options})
    upsert(table, [(1, k, "1") for k in range(4)] + [(2, 0, "1")], batch_id="b1")
    upsert(table, [(1, k, "2") for k in range(4)], batch_id="b2")
    create_tag(table.metadata, "t")
    run_compaction(table.metadata, LocalRunner(1), full=True)
    upsert(table, [(1, k, "3") for k in range(2)], batch_id="b3")
    table.store.put(table.paths.consumer_path("c"), encode_consumer(3))
    return table


def batch(overwrite: str | None = None) -> Callable[[Table], object]:
    return lambda t: upsert_table(
        make_context(t.metadata, "new", runner=LocalRunner(1), overwrite=overwrite), rows(NEW)
    )


def tag(table: Table) -> None:
    try:
        create_tag(table.metadata, "u")
    except InvalidInputError as error:
        if "exists already" not in error.message:
            raise


def untag(table: Table) -> None:
    expire(table)
    try:
        delete_tag(table.metadata, table.schema, "t")
    except NotFoundError as error:
        if "does not exist" not in error.message:
            raise


def expire(table: Table) -> None:
    keep_newest(table)


def clean(table: Table) -> None:
    clean_staging(table.metadata, now_ms=LATER_MS)
    clean_orphans(table.metadata, now_ms=LATER_MS, older_than_ms=0, dry_run=False)


def alter(table: Table) -> None:
    alter_table(table, SchemaEdits(set={"snapshot.time-retained": "2 h"}, comments={"v": "text"}))


def rebuild(table: Table) -> None:
    """Repair the file indexes: build them anew."""
    spec = rebuild_spec(table.schema, "bloom-filter", ["v"], drop=False)
    run_file_index_rebuild(table.metadata, LocalRunner(1), spec)


def resize(table: Table) -> None:
    """Split the buckets, as if their files were large."""
    folder = index_folder(table.paths)
    run_ring_resize(table.metadata, LocalRunner(1), index_dir=folder, target_bytes=900, sleep=lambda _: None)


RINGS = {
    "index.type": "bucket",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.max.num.buckets": "4",
    "hoodie.bucket.index.min.num.buckets": "1",
}


def written(*, keep: Callable[[tuple[int, int]], bool] = lambda key: True) -> Rows:
    return {k: v for k, v in START.items() if keep(k)} | {(p, k): v for p, k, v in NEW}


WORK = {
    "upsert": Work(batch(), written(), AT_2),
    "overwrite partitions": Work(batch("partitions"), written(keep=lambda k: k[0] == 2), AT_2),
    "overwrite table": Work(batch("table"), written(keep=lambda k: False), AT_2),
    "compaction": Work(lambda t: run_compaction(t.metadata, LocalRunner(1), full=True), START, AT_2),
    "lookup store": Work(lambda t: run_lookup_store(t.metadata, LocalRunner(1)), START, AT_2),
    "expiry": Work(expire, START, AT_2),
    "rollback": Work(lambda t: roll_back_table(t.metadata, t.schema, snapshot_id=2), AT_2, AT_2),
    "rollback to a tag": Work(lambda t: roll_back_table(t.metadata, t.schema, tag="t"), AT_2, AT_2),
    "tag": Work(tag, START, AT_2),
    "delete tag": Work(untag, START),
    "clean": Work(clean, START, AT_2),
    "alter": Work(alter, START, AT_2),
    "rebuild file indexes": Work(rebuild, START, AT_2),
    "resize rings": Work(resize, START, AT_2, RINGS),
    "upsert, compacted at once": Work(batch(), written(), AT_2, {"commit.force-compact": "true"}),
    "upsert, tagged at once": Work(batch(), written(), AT_2, {"tag.automatic-creation": "batch"}),
}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Mapping[str, str]], Path]:
    """Folders with the table `build` makes, one for each set of options."""
    made: dict[frozenset[tuple[str, str]], Path] = {}

    def template(options: Mapping[str, str]) -> Path:
        key = frozenset(options.items())
        if key not in made:
            folder = tmp_path_factory.mktemp("template")
            assert content(build(folder, options)) == START
            made[key] = folder
        return made[key]

    return template


def copy_of(template: Path, folder: Path) -> tuple[Table, FaultStore]:
    shutil.copytree(template, folder)
    table = Table.open(f"{folder}/wh/d.db/t")
    store = FaultStore(table.store)
    return Table(store, table.paths), store


def check(work: Work, uri: str) -> None:
    table = Table.open(uri)
    assert content(table) == work.expected
    if work.tagged is not None:
        assert content(table, tag="t") == work.tagged
    assert reachable(table) <= files_on_disk(table)
    # The table goes on: nothing is left that stands in the way.
    upsert(table, [(1, 0, "after"), (1, 77, "after")])
    assert content(table) == work.expected | {(1, 0): "after", (1, 77): "after"}


@pytest.mark.parametrize("name", WORK)
def test_all_points(name: str, templates: Callable[[Mapping[str, str]], Path], tmp_path: Path) -> None:
    work = WORK[name]
    template = templates(work.options)
    table, store = copy_of(template, tmp_path / "whole")
    work.run(table)
    called = [verb for verb, _ in store.calls]
    check(work, table.uri)
    deaths = 0
    for when, verbs, other in WAYS:
        seen = sum(verb in verbs for verb in called)
        for point in count() if WHOLE else share_of(range(seen), 0.25):
            folder = tmp_path / f"{point}-{when}-{other}"
            died = die_and_resume(work, copy_of(template, folder), point, when, verbs, other)
            shutil.rmtree(folder)
            if not died:
                # Threads that need one listing at the same time make it once or twice, so runs differ by a few calls.
                assert point >= ALWAYS * seen, f"{name} ended alive after {point} of about {seen} calls"
                break
            deaths += 1
    print(f"{name}: {deaths} deaths")


def test_all_points_of_a_drop(templates: Callable[[Mapping[str, str]], Path], tmp_path: Path) -> None:
    """A table whose drop died is there still, for the next drop, or is gone; what is made in its place has no old rows."""
    template = templates({})
    table, store = copy_of(template, tmp_path / "whole")
    drop_table(Table(table.store, table.paths))
    points = sum(verb in VERBS for verb, _ in store.calls)
    for point in share_of(range(points), 0.25):
        for when in WHEN:
            folder = tmp_path / f"{point}-{when}"
            table, store = copy_of(template, folder)
            assert die(partial(drop_table, Table(table.store, table.paths)), store, point, when) is not None
            try:
                drop_table(Table.open(table.uri))
            except NotFoundError as error:
                assert "not a Paimon table" in error.message  # noqa: PT017 - any other one is a failure, too
            assert [f.path for f in store.walk(table.uri)] == []
            assert [f.path for f in store.walk(staging_root(table.paths))] == []
            assert content(make_table(folder, options={"bucket": "-1"})) == {}
            shutil.rmtree(folder)
    print(f"drop: {points} points, {2 * points} deaths")


def die(
    work: Callable[[], object], store: FaultStore, point: int, when: When, verbs: tuple[str, ...] = VERBS
) -> str | None:
    """Let some work die at a point of its store; says where it did, None when it ended before that point."""
    dead: list[str] = []

    def fall(verb: str, path: str) -> None:
        dead.append(f"{when} {verb} {path}")
        raise Died(dead[0])

    def stay_dead(verb: str, path: str) -> None:
        if dead:
            raise Died

    store.fail(act=stay_dead, times=1_000_000)
    store.fail(verbs, act=fall, when=when, skip=point)
    try:
        work()
    except Died:
        assert dead
    else:
        assert not dead, f"{dead[0]} was swallowed"
    store.heal()
    return dead[0] if dead else None


def die_and_resume(
    work: Work, made: tuple[Table, FaultStore], point: int, when: When, verbs: tuple[str, ...], other: bool
) -> bool:
    """Let the work die at a point, finish it by the same or by another program; True when it died there."""
    table, store = made
    died = die(lambda: work.run(table), store, point, when, verbs)
    if died is None:
        return False
    work.run(Table.open(table.uri) if other else table)
    try:
        check(work, table.uri)
    except (AssertionError, Exception) as error:
        raise AssertionError(f"lost after a death {died}, resumed by {'another' if other else 'the same'}") from error
    return True
