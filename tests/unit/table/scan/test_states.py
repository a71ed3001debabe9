"""States by the names people give them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.table.expiration.tags import create_tag
from lakeidx.table.scan.states import State, find_range, find_state


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    spec = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}
    made = Table.create(f"{tmp_path_factory.mktemp('states')}/d.db/t", spec)
    for k in range(3):
        made.upsert(pa.table({"k": [k]}))
    create_tag(made.metadata, "second", snapshot_id=2)
    create_tag(made.metadata, "first", snapshot_id=1)
    return made


@pytest.mark.parametrize(
    ("name", "number"),
    [(0, 0), (2, 2), ("2", 2), (" second ", 2), ("first", 1), ("2199-01-01", 3), ("1999-01-01T00:00:00Z", 0)],
)
def test_a_state_has_many_names(table: Table, name: int | str, number: int) -> None:
    found = find_state(table.metadata, name)
    assert found.number == number
    snapshot = found.load_snapshot()
    assert (0 if snapshot is None else snapshot.id) == number
    assert find_state(table.metadata, found) is found


def test_times_without_zone_are_utc(table: Table) -> None:
    second = table.metadata.load_snapshot(2).time_millis
    text = datetime.fromtimestamp(second / 1000, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    assert find_state(table.metadata, text).number >= 2
    assert find_state(table.metadata, text + "Z") == find_state(table.metadata, text)


def test_ranges_are_parsed_to_states(table: Table) -> None:
    def ends(text: str) -> tuple[int, int | None]:
        after, upto = find_range(table.metadata, text)
        return after.number, None if upto is None else upto.number

    assert ends("1..second") == (1, 2)
    assert ends("..2") == (0, 2)
    assert ends("second..") == (2, None)
    with pytest.raises(InvalidInputError, match=r"write a range as A\.\.B"):
        find_range(table.metadata, "2")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("yesterday", "'yesterday' is not a tag of the table, a snapshot id or an ISO time; tags: first, second"),
        ("branch:dev", "branch 'dev' does not exist; branches: none"),
    ],
)
def test_names_of_nothing(table: Table, name: str, says: str) -> None:
    with pytest.raises((InvalidInputError, NotFoundError), match=says):
        find_state(table.metadata, name)


def test_a_snapshot_is_read_when_it_is_needed(table: Table) -> None:
    state = find_state(table.metadata, 9)
    assert state == State(table.metadata, 9)
    with pytest.raises(NotFoundError, match="snapshots 1 to 3 exist"):
        state.load_snapshot()
