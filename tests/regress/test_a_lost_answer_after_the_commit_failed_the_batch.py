"""A store that does not answer once the snapshot, or the tag, is there: the batch is committed, and the tag is made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from lakeidx.api import Table
from lakeidx.errors import CommitUnknownError, InvalidInputError, LakeIdxError, UnavailableError
from lakeidx.testing.fault_store import FaultStore
from tests.kit.small_tables import content, make_table, upsert

WRITES = ("put", "put_if_absent", "delete")
OPTIONS = [{}, {"tag.automatic-creation": "batch"}, {"index.type": "state"}]


def lost(verb: str) -> LakeIdxError:
    """Return what a store of objects raises when it does not answer."""
    if verb == "put_if_absent":
        return CommitUnknownError("the answer was lost")
    return UnavailableError("the store did not answer")


def calls_after_the_snapshot(folder: Path, options: dict[str, str]) -> tuple[int, list[str]]:
    """Return how many writes a batch makes up to its snapshot, and the verbs of those after it."""
    table = make_table(folder, options=options)
    store = FaultStore(table.store)
    upsert(Table(store, table.paths), [(1, 1, "a")])
    writes = [(verb, path) for verb, path in store.calls if verb in WRITES]
    at = next(i for i, (verb, path) in enumerate(writes) if verb == "put_if_absent" and "/snapshot/snapshot-" in path)
    return at + 1, [verb for verb, _ in writes[at + 1 :]]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: next(iter(o.values()), "plain"))
def test_a_batch_whose_snapshot_stands_is_committed(
    tmp_path: Path, options: dict[str, str], when: Literal["before", "after"]
) -> None:
    before, verbs = calls_after_the_snapshot(tmp_path / "counted", options)
    assert verbs
    for number, verb in enumerate(verbs):
        table = make_table(tmp_path / str(number), options=options)
        store = FaultStore(table.store)
        fault = store.fail(WRITES, when=when, error=lost(verb), skip=before + number)
        result = upsert(Table(store, table.paths), [(1, 1, "a")], batch_id="b")
        assert fault.hits == 1
        assert result.commit.snapshot_ids == (1,)
        # The same batch comes again, and once more with a store that answers.
        for _ in range(2):
            assert upsert(Table.open(table.uri), [(1, 1, "a")], batch_id="b").commit.already
        upsert(Table.open(table.uri), [(1, 2, "b")])
        assert content(Table.open(table.uri)) == {(1, 1): "a", (1, 2): "b"}
        assert Table.open(table.uri).verify().passed


def test_a_tag_whose_answer_was_lost_is_made(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    store = FaultStore(table.store)
    store.fail("put_if_absent", "/tag/", when="after", error=lost("put_if_absent"))
    assert Table(store, table.paths).create_tag("v1").snapshot == 1
    assert [t["tag"] for t in Table.open(table.uri).tags()] == ["v1"]
    # Another one's tag is not ours, and one that is not there is unknown.
    store.fail("put_if_absent", "/tag/", when="after", error=lost("put_if_absent"))
    with pytest.raises(InvalidInputError, match="exists already"):
        Table(store, table.paths).create_tag("v1", retain="1 d")
    store.fail("put_if_absent", "/tag/", error=lost("put_if_absent"))
    with pytest.raises(CommitUnknownError):
        Table(store, table.paths).create_tag("v2")
