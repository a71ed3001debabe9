"""Bugs that were histories of one table, as steps of `tests.kit.shared_table`, whose model says what must be seen.

The title of a story tells what went wrong. Rows of a batch follow from its number; each story runs with two sets of rows in
`make test-all`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.kit.share import share_of
from tests.kit.shared_table.keys import OTHER_ENGINES
from tests.kit.shared_table.machine import Machine
from tests.kit.shared_table.programs import Call, Step
from tests.kit.table_history import ENGINES

pytestmark = pytest.mark.slow

_ENGINES = {**ENGINES, **{e.name: e for e in OTHER_ENGINES}}
#: Where a program puts a snapshot, and the moment after that.
_PUT, _WAS_PUT = Call("put_if_absent", "/snapshot/"), Call("put_if_absent", "/snapshot/", when="after")


def _do(
    what: str, /, *inside: Step, at: Call = _PUT, dies: Call | None = None, refused: str = "", **arguments: Any
) -> Step:
    own = (
        {"handle": None}
        if what in ("compact", "expire", "tag", "untag", "roll_back", "index_files", "lookup_files")
        else {}
    )
    return Step(what, own | arguments, inside, at, dies, refused)


def _upsert(batch: str, content: int, *inside: Step, handle: int | None = None, **more: Any) -> Step:
    return _do("upsert", *inside, batch=batch, content=content, handle=handle, **more)


def _others(count: int, first: int = 50) -> list[Step]:
    return [_upsert(f"other{first + n}", first + n) for n in range(count)]


_EXPIRE, _COMPACT = _do("expire", retain=1), _do("compact", full=True)
_FIRST, _B = _upsert("first", 1), _upsert("b", 2)


def _back(snapshots: int, **more: Any) -> Step:
    return _do("roll_back", back=snapshots, tag=None, **more)


def _tag(name: str = "one", back: int = 0) -> Step:
    return _do("tag", name=name, back=back)


def _stage(stages: int) -> list[Step]:
    return [_do("stage", slot=0, handle=0, batch="b", content=2), _do("advance", slot=0, stages=stages)]


def _go_on(*inside: Step, **more: Any) -> Step:
    """Run the stages that are left of the batch that stopped."""
    return _do("advance", *inside, slot=0, stages=4, **more)


def _overtaken(count: int) -> list[Step]:
    """Others write so many snapshots and let all but the newest expire."""
    return [*_others(count), _EXPIRE]


def _at_calls(*before: Step, last: Step) -> list[list[Step]]:
    """Let others come in at one call of the last step after the other; a batch must land after it."""
    return [[*before, replace(last, at=Call(skip=at)), _B] for at in share_of(range(60), 0.15)]


@dataclass(frozen=True)
class Story:
    """What went wrong, the histories that showed it, and the tables that it went wrong in.

    searches   others come in at one call after the other, some of which are not made
    """

    title: str
    histories: list[list[Step]]
    engines: tuple[str, ...] = ("deduplicate",)
    searches: bool = False


_BRANCH_X = _do("branch", name="x", pick=0)
_DAY_IS_BACK = [_FIRST, _B, _tag(), _BRANCH_X, _back(1)]
_TO_TAG = _do("roll_back", back=0, tag="one")
_BROUGHT_BACK = "was rolled back with snapshot 2, and branch 'x' may have brought it back"
_DROP, _CLEAN_STAGING, _OF_OTHERS = _do("drop", handle=0), _do("clean_staging"), _do("foreign_clean")
#: Content of batches that hold certain rows and no deletes: some of partition 1, and those of three floats.
_ROWS_OF_ONE, _SMALLEST = 1533, 6898


def _dies_on_expired(*overtaken: Step, **more: Any) -> Step:
    """A batch that others overtake before it puts snapshot 2, and that dies when it has put it."""
    return _upsert("b", 2, *overtaken, dies=_WAS_PUT, **more)


def _expire_and_die(upto: int) -> Step:
    return _do("expire_and_die", upto=upto)


_DIES_COMPACTING = replace(_COMPACT, inside=(*_others(3), _expire_and_die(5)), dies=_WAS_PUT)

STORIES = [
    Story("a batch was acknowledged, or committed twice, when its put succeeded on an id that had expired",
          [[_FIRST, _upsert("b", 2, *_overtaken(n), at=at)] for n in (1, 2, 3) for at in (_PUT, _WAS_PUT)]
          + [[_upsert("b", 2, *_overtaken(2))]]),
    Story("the same when its writer died before it had looked, and another one ran it again",
          [[_FIRST, _upsert("b", 2, *_overtaken(n), at=_PUT, dies=_WAS_PUT), _B, _EXPIRE, _B] for n in (1, 2, 3)]
          + [[_FIRST, _upsert("b", 2, dies=_WAS_PUT), *_overtaken(n), _B, _B] for n in (0, 1, 2, 3)]),
    Story("the same when another process ran it meanwhile",
          [[_FIRST, _upsert("b", 2, *others, _B, _COMPACT, *_overtaken(n))]
           for n in (0, 1, 2, 3) for others in ([], _others(1, 80))]),
    Story("two processes planned a batch again, and the second one committed a third attempt",
          [[_FIRST, *_stage(3), *_others(1, 70),
            _go_on(_upsert("b", 2, dies=dies), *_others(1, 71), _COMPACT, *_overtaken(1), at=Call("open_output", "/data-")), _B]
           for dies in (None, Call("put_if_absent", "/commit.json"))]),
    Story("a commit did not go on where it had died planning again",
          [[_FIRST, *_stage(3), *_others(2, 70), _go_on(dies=Call("put_if_absent", "/index_write-2.json")), _go_on(), _B]]),
    Story("a stage commit said already for a batch that another program had committed and a rollback had taken away",
          [[_FIRST, *_stage(3), _B, _back(1), _go_on(refused="was rolled back: run it again"), _B],
           [_FIRST, *_stage(3), _B, _back(1), *_others(2), _EXPIRE, _go_on(refused="begun anew: run it again"), _B]]),
    Story("a snapshot on an expired id was read, tagged, rolled back to, or counted in what an expiry or a deleted tag may delete",
          [[_FIRST, _upsert("late", 3, _B, _DIES_COMPACTING, dies=_WAS_PUT), _EXPIRE, _upsert("late", 3)],
           [_FIRST, _tag(), _dies_on_expired(*_others(3), _expire_and_die(4), overwrite="table"), _do("untag", name="one")],
           [_FIRST, _upsert("b", 2, *_others(3), _expire_and_die(4)), _B],
           [_FIRST, _dies_on_expired(*_others(3), _expire_and_die(4)), _B, _B],
           [_FIRST, _tag(), _dies_on_expired(*_overtaken(3)), _TO_TAG],
           [_FIRST, _dies_on_expired(_upsert("late", 3, *_overtaken(3), at=Call("put", "/LATEST"))), _upsert("c", 4)]]
          + [[_FIRST, _dies_on_expired(*_others(3), _tag("two", 2), gone),
              _do("roll_back", back=0, tag="two", refused="run the expiry again"),
              _do("expire", retain=100), _do("roll_back", back=0, tag="two"), _B]
             for gone in (_EXPIRE, _expire_and_die(4))]),
    Story("a batch failed with 'no such file' when the snapshot that it was assigned on, or was to follow, expired meanwhile",
          [[_FIRST, _upsert("a", 5), _upsert("c", 4, _COMPACT, _upsert("d", 6), _EXPIRE, at=Call("open_output", "/data-"))],
           *_at_calls(_FIRST, last=_upsert("c", 4, _COMPACT, *_overtaken(1))),
           *_at_calls(_FIRST, *_stage(3), last=_go_on(_COMPACT, *_overtaken(1)))], searches=True),
    Story("an id whose rows were rolled back, or whose table was created again, did nothing and said success; so did other content",
          [[_FIRST, _B, _B, _back(1, foreign=foreign), _upsert("b", content), _upsert("b", content)]
           for foreign in (False, True) for content in (2, 3)]
          + [[_FIRST, _B, _back(1), *_others(4), _EXPIRE, _B], [_FIRST, _B, *_others(1), _COMPACT, _EXPIRE, _B],
             [_B, _DROP, _B, _B, _DROP, _B, _B], [*_stage(3), _DROP, _upsert("b", 3)],
             [_FIRST, _B, _upsert("b", 3, refused="was ingested with other content")]]),
    Story("a batch on a branch took the staged rows of the same id on the table itself for its own, and did nothing",
          [[_FIRST, _B, _tag(), _BRANCH_X, _do("write_on_branch", name="x", batch="b", content=9), _B]]),
    Story("a batch that had lost its files to another program's cleaner was committed without them, or taken for committed",
          [[_FIRST, _upsert("b", 2, dies=_PUT), _OF_OTHERS, _B],
           [_FIRST, *_stage(3), _OF_OTHERS, _do("advance", slot=0, stages=1)],
           [_FIRST, *_stage(3), *_overtaken(3), _OF_OTHERS, _do("advance", slot=0, stages=1)]]),
    Story("a compaction brought a row back that was deleted by a vector meanwhile",
          _at_calls(_upsert("a", _ROWS_OF_ONE), _COMPACT, _do("delete_by_vector", pick=0),
                    last=replace(_COMPACT, inside=(_do("delete_by_vector", pick=1),))),
          ("deletion-vectors",), searches=True),
    Story("an overwrite stayed in level 0, where readers of deletion vectors do not look",
          [[_upsert("a", 1, overwrite="table")]], ("deletion-vectors",)),
    Story("an overwrite wrote changelog files, which no snapshot has",
          [[_FIRST, _upsert("b", 2, overwrite=mode)] for mode in ("partitions", "table")], ("changelog",)),
    Story("float keys at the end of a file overlapped the next one's, and nothing could be written any more",
          [[_upsert("a", _SMALLEST), _COMPACT]], ("float-keys",)),
    Story("a batch whose rows were all rejected succeeded, and emptied the table when it overwrote",
          [[_FIRST, _do("rejected", handle=None, batch="bad", rows=2, overwrite="table")]]),
    Story("a batch for another number of buckets was written 21 times before it was refused",
          [[_upsert("a", _ROWS_OF_ONE), _do("other_bucket_number", batch="refused", content=_ROWS_OF_ONE)]], ("fixed-buckets",)),
    Story("files of a batch that died, which only a tag or a branch kept, were taken for files that nobody had committed",
          [[_FIRST, _upsert("b", 2, dies=_WAS_PUT), _tag(), *more, _COMPACT, *_overtaken(1), _B] for more in ([], [_BRANCH_X])]),
    Story("a snapshot on an expired id misled others that run the batch: a compaction had left it on the id of theirs",
          [[_FIRST, _do("compact", _B, *_overtaken(3), full=True, dies=_WAS_PUT), _B, _EXPIRE, _B],
           [_FIRST, _upsert("b", 2, _B, _upsert("late", 3, *_overtaken(2), dies=_WAS_PUT)), _upsert("late", 3), _B]]),
    Story("two processes ran a batch, and what the second one put on the expired id of the first could not be read",
          [[_FIRST, _upsert("b", 1, _upsert("b", 1), then, _EXPIRE, dies=dies), *more]
           for then in (_COMPACT, *_others(1))
           for dies, more in ((None, []), (_WAS_PUT, [_upsert("b", 1), _EXPIRE, _upsert("b", 1)]))]),
    Story("a compaction that moves files, or gives them an index, did not know its end when its snapshot had expired",
          [[_FIRST, replace(what, inside=(*_others(3), _EXPIRE, _EXPIRE), at=at)]
           for what in (_COMPACT, _do("index_files")) for at in (_PUT, _WAS_PUT)]),
    Story("a program with a handle of a dropped table began a batch of the table in its place anew",
          [[_do("stage", slot=0, handle=1, batch="b", content=2), _do("drop", handle=0), _B, _go_on(), _B],
           [_FIRST, *_stage(3), _do("drop", handle=1), _do("advance", slot=0, stages=1)]],
          ("deduplicate", "fixed-buckets")),
    Story("a handle that stayed open over a rollback answered old rows and damaged the table",
          [[_FIRST, *_others(2), _back(1), *_others(1, 60), _upsert("b", 2, handle=n), *_others(2, 70)] for n in range(3)]
          + [[*_others(4), _tag(), _BRANCH_X, _back(1), _upsert("b", 2), *[_do("clock", seconds=0.0)] * 4]]
          + [[_FIRST, *_others(2), _do("lookup_files"), _upsert("c", 4, handle=0), _back(2), *_others(3, 60)]]
          + [[_FIRST, *_others(1), _upsert("b", 2, _back(1), *more, at=at)]
             for more in ([], _others(1, 60)) for at in (_PUT, _WAS_PUT)]
          + [[_FIRST, *_others(1), _do("compact", _back(1), full=True, at=_WAS_PUT)]],
          ("deduplicate", "fixed-buckets")),
    Story("a rollback and an expiry took all snapshots away between them",
          [h for last, inner in ((_back(2), _EXPIRE), (_EXPIRE, _back(2)), (_EXPIRE, _TO_TAG))
           for h in _at_calls(_FIRST, _tag(), *_others(3), last=replace(last, inside=(inner,)))]
          + _at_calls(_FIRST, _tag(), *_others(3), _EXPIRE, last=replace(_TO_TAG, inside=(_EXPIRE,))), searches=True),
    Story("a tag that was made during a rollback, or an expiry, stayed without its files",
          [h for last, inner in ((_back(2), [_tag("late", 0)]), (_EXPIRE, [_tag("late", 2)]), (_tag("late", 0), [_back(2)]),
                                 (_tag("late", 0), [_back(2), *_others(2, 70)]))
           for h in _at_calls(_FIRST, *_others(3), last=replace(last, inside=tuple(inner)))], searches=True),
    Story("a rollback, an expiry and a deleted tag took files of branches away",
          [[_FIRST, *_others(2), _tag(), _BRANCH_X, _back(2)],
           [_FIRST, *_others(2), _tag("two", 1), _BRANCH_X, _COMPACT, _tag("t"), _EXPIRE, _do("untag", name="t"),
            _do("clean", handle=None)]]),
    Story("a batch that was rolled back and that a branch brought back was committed twice",
          [[*_DAY_IS_BACK, *meanwhile, _do("fast_forward", name="x"), _B, _B, _upsert("b", 3)]
           for meanwhile in ([], _others(1), [_B], [_CLEAN_STAGING], [_B, _CLEAN_STAGING])]
          + [[*_DAY_IS_BACK, _do("fast_forward", name="x"), _B, _back(1), _B, _B]]
          + [[*_DAY_IS_BACK, *late, _do("fast_forward", name="x"), *dropped, *_overtaken(1),
              *[_upsert("b", 2, refused=_BROUGHT_BACK)] * 2]
             for late in ([], [*_others(1, 60), _B]) for dropped in ([], [_do("drop_branch", name="x")])]
          + [[_FIRST, _B, *_others(1), _tag(), _BRANCH_X, _back(2), _do("fast_forward", name="x"),
              _upsert("b", 2, refused=_BROUGHT_BACK)]]
          + [[_FIRST, _tag(), _BRANCH_X, _B, _back(1), *_others(2), _EXPIRE, _B]]),
    Story("a key state kept no identity of a snapshot that was rolled back, and stopped every batch",
          [[_FIRST, _do("compact", _back(1), full=True, at=Call(skip=n)), _B, _upsert("c", 3)]
           for n in share_of(range(20, 70), 0.2)]
          + [[_FIRST, *_others(1), _back(1), _B]],
          ("memory-index",), searches=True),
]  # fmt: skip


def _count(step: Step) -> int:
    return 1 + sum(map(_count, step.inside))


def _with_rows(step: Step, rows: int) -> Step:
    """Give each batch of a step other rows: 100 times `rows` further; numbers from 1000 on stand for certain rows."""
    number = step.arguments.get("content", 1000)
    content = {"content": number + 100 * rows} if number < 1000 else {}
    return replace(step, arguments=step.arguments | content, inside=tuple(_with_rows(s, rows) for s in step.inside))


@pytest.mark.parametrize(
    ("story", "engine"),
    [pytest.param(story, engine, id=f"{story.title}-{engine}") for story in STORIES for engine in story.engines],
)
def test_it_shows_what_the_model_says(story: Story, engine: str, tmp_path: Path) -> None:
    for number, steps in enumerate(story.histories):
        for rows in share_of(range(2), 0.5):
            machine = Machine(tmp_path / f"{number}-{rows}", _ENGINES[engine])
            machine.run([_with_rows(step, rows) for step in steps])
            assert story.searches or machine.done.total() == sum(map(_count, steps)), "others did not come in"
