"""Tags that a table makes by itself. Names, delays and retention are those Java's TagAutoManagerTest expects (release 1.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import InvalidInputError
from lakeidx.format.snapshot import encode_snapshot
from lakeidx.options.table_options import TableOptions
from lakeidx.table.expiration.automatic_tags import (
    make_automatic_tags,
    make_batch_tag,
    period_of,
    plan_tags,
    zone_of,
)
from lakeidx.table.expiration.read import read_tags
from lakeidx.table.expiration.tags import create_tag, delete_tag
from lakeidx.table.history import tag_names
from lakeidx.table.metadata import TableMetadata

ROWS = pa.table({"id": pa.array([1], pa.int64())})


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


class History:
    """A table that gets one snapshot after another, of given watermark and time."""

    def __init__(self, path: Path, options: Mapping[str, str]) -> None:
        fields = [{"name": "id", "type": "BIGINT"}]
        # Batches do not make tags here; the tests call for them.
        self.table = Table.create(
            str(path / "t"), {"fields": fields, "primaryKeys": ["id"], "options": {"bucket": "1"}}
        )
        self.table.upsert(ROWS)
        self.first = self.table.metadata.load_snapshot(1)
        self.table.store.delete(self.table.paths.snapshot_path(1))
        self.id = 0
        self.options = options

    def commit(self, text: str | None, *, process_time: str | None = None, **more: str) -> set[str]:
        """Tag names after a snapshot of that watermark."""
        self.id += 1
        snapshot = replace(
            self.first,
            id=self.id,
            uuid=f"u{self.id}",
            watermark=None if text is None else utc(text),
            time_millis=utc(process_time or "2026-01-01T00:00:00"),
        )
        store, paths = self.table.store, self.table.paths
        store.put(paths.snapshot_path(self.id), encode_snapshot(snapshot))
        store.put(paths.latest, str(self.id).encode())
        return self.run(**more)

    def run(self, **more: str) -> set[str]:
        metadata = TableMetadata(self.table.store, self.table.paths)
        schema = replace(
            metadata.latest_schema(), options={**self.options, **{k.replace("_", "-"): v for k, v in more.items()}}
        )
        make_automatic_tags(metadata, schema)
        make_batch_tag(metadata, schema)
        return set(tag_names(metadata))


def by_watermark(period: str, **more: str) -> dict[str, str]:
    return {"tag.automatic-creation": "watermark", "tag.creation-period": period, **more}


def test_hourly_with_retention(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("hourly", **{"tag.num-retained-max": "3"}))
    assert h.commit("2023-07-18T12:12:00") == {"2023-07-18 11"}
    assert h.commit("2023-07-18T12:59:00") == {"2023-07-18 11"}
    assert h.commit("2023-07-18T13:00:00") == {"2023-07-18 11", "2023-07-18 12"}
    h.commit("2023-07-18T14:00:00")
    assert h.commit("2023-07-18T15:00:00") == {"2023-07-18 12", "2023-07-18 13", "2023-07-18 14"}
    # Two snapshots at once: the next program that commits makes both tags, at their own snapshots.
    h.options = {}
    h.commit("2023-07-18T16:00:00")
    h.commit("2023-07-18T17:30:00")
    h.options = by_watermark("hourly")
    assert h.run() == {"2023-07-18 12", "2023-07-18 13", "2023-07-18 14", "2023-07-18 15", "2023-07-18 16"}
    tags = read_tags(h.table.metadata)
    assert {n: t.snapshot.id for n, t in tags.items()} == {
        "2023-07-18 12": 3, "2023-07-18 13": 4, "2023-07-18 14": 5, "2023-07-18 15": 6, "2023-07-18 16": 7
    }  # fmt: skip
    assert tags["2023-07-18 12"].time_retained_ns is None


def test_a_tag_waits_for_the_creation_delay(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("hourly", **{"tag.creation-delay": "10 s"}))
    assert h.commit("2023-07-18T12:00:09") == {"2023-07-18 11"}
    assert h.commit("2023-07-18T13:00:09") == {"2023-07-18 11"}
    assert h.commit("2023-07-18T13:00:10") == {"2023-07-18 11", "2023-07-18 12"}


def test_two_hours_and_no_watermark(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("two-hours"))
    assert h.commit(None) == set()
    assert h.commit("2023-07-18T12:00:01") == {"2023-07-18 10"}
    assert h.commit("2023-07-18T13:00:01") == {"2023-07-18 10"}
    assert h.commit("2023-07-18T14:00:09") == {"2023-07-18 10", "2023-07-18 12"}


def test_daily_and_a_period_that_was_changed(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("hourly"))
    assert h.commit("2023-07-18T12:00:09") == {"2023-07-18 11"}
    h.options = by_watermark("daily")
    assert h.commit("2023-07-20T12:00:01") == {"2023-07-18 11", "2023-07-19"}


@pytest.mark.parametrize(
    ("period", "formatter", "names"),
    [
        ("daily", "without_dashes", {"20230717", "20230718"}),
        ("daily", "without_dashes_and_spaces", {"20230717", "20230718"}),
        ("hourly", "without_dashes", {"20230718 11", "20230719 12"}),
        ("hourly", "without_dashes_and_spaces", {"2023071811", "2023071912"}),
    ],
)
def test_a_formatter_writes_the_names(tmp_path: Path, period: str, formatter: str, names: set[str]) -> None:
    h = History(tmp_path, by_watermark(period, **{"tag.period-formatter": formatter}))
    h.commit("2023-07-18T12:12:00")
    assert h.commit("2023-07-19T13:13:00") == names


def test_a_period_of_any_length_and_a_zone(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period-duration": "15 min",
               "sink.process-time-zone": "GMT+8", "tag.default-time-retained": "3 d"}  # fmt: skip
    h = History(tmp_path, options)
    assert h.commit(None, process_time="2023-07-18T12:14:00") == {"202307181945"}
    assert h.commit(None, process_time="2023-07-18T12:14:59") == {"202307181945"}
    assert h.commit(None, process_time="2023-07-18T12:15:00") == {"202307181945", "202307182000"}
    tag = read_tags(h.table.metadata)["202307181945"]
    assert tag.time_retained_ns == 3 * 86400 * 10**9
    assert tag.create_time_ns is not None


def test_completion_makes_the_tags_that_were_missed(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("hourly", **{"tag.automatic-completion": "true"}))
    h.commit("2023-07-18T12:00:01")
    assert h.commit("2023-07-18T16:00:01") == {"2023-07-18 11", "2023-07-18 12"}
    assert h.commit("2023-07-18T16:00:02") == {"2023-07-18 11", "2023-07-18 12", "2023-07-18 13"}


def test_only_automatic_tags_are_dropped(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("hourly", **{"tag.num-retained-max": "1"}))
    assert h.commit("2023-07-18T12:12:00") == {"2023-07-18 11"}
    create_tag(h.table.metadata, "many-tags-test")
    assert h.commit("2023-07-18T13:13:00") == {"2023-07-18 12", "many-tags-test"}


def test_batches_replace_the_tag_of_their_day(tmp_path: Path) -> None:
    options = {"tag.automatic-creation": "batch", "sink.process-time-zone": "UTC", "tag.num-retained-max": "2"}
    h = History(tmp_path, options)
    assert h.commit(None, process_time="2023-07-18T12:00:00") == {"batch-write-2023-07-18"}
    assert h.commit(None, process_time="2023-07-18T23:59:59") == {"batch-write-2023-07-18"}
    assert read_tags(h.table.metadata)["batch-write-2023-07-18"].snapshot.id == 2
    create_tag(h.table.metadata, "mine", snapshot_id=1)
    h.commit(None, process_time="2023-07-19T00:00:00")
    assert h.commit(None, process_time="2023-07-20T00:00:00") == {
        "batch-write-2023-07-19",
        "batch-write-2023-07-20",
        "mine",
    }
    h.options = {**options, "tag.batch.customized-name": "newest"}
    assert "newest" in h.commit(None, process_time="2023-07-21T00:00:00")
    assert read_tags(h.table.metadata)["newest"].snapshot.id == 5


def test_write_only_tables_make_none(tmp_path: Path) -> None:
    for mode in ("watermark", "process-time", "batch", "none"):
        h = History(tmp_path / mode, {"tag.automatic-creation": mode, "write-only": "true"} if mode != "none" else {})
        assert h.commit("2023-07-18T12:12:00") == set()


def test_a_tag_dropped_by_hand_does_not_come_back(tmp_path: Path) -> None:
    h = History(tmp_path, by_watermark("hourly"))
    h.commit("2023-07-18T12:12:00")
    h.commit("2023-07-18T13:12:00")
    delete_tag(h.table.metadata, h.table.schema, "2023-07-18 11")
    assert h.run() == {"2023-07-18 12"}


def test_java_success_file_folders_are_no_tags(tmp_path: Path) -> None:
    h = History(tmp_path, {})
    h.commit(None)
    create_tag(h.table.metadata, "mine")
    folder = tmp_path / "t" / "tag" / "tag-success-file"
    folder.mkdir()
    (folder / "mine_SUCCESS").write_text("{}")
    assert list(read_tags(h.table.metadata)) == ["mine"]


def test_plan_is_the_same_in_pieces() -> None:
    period = period_of(TableOptions({"tag.creation-period": "hourly"}))
    start = datetime(2023, 7, 18)
    times: list[tuple[int, datetime | None]] = [(i, start + timedelta(minutes=37 * i)) for i in range(60)]
    whole = list(plan_tags(times, period, newest=None))
    pieces: list[tuple[int, str]] = []
    for item in times:
        newest = period.time_of(pieces[-1][1]) if pieces else None
        pieces += plan_tags([item], period, newest=newest)
    assert pieces == whole
    assert len(whole) > 20


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"tag.creation-delay": "1 d"}, "shorter than"),
        ({"tag.creation-period": "hourly", "tag.creation-delay": "1 h"}, "shorter than"),
    ],
)
def test_a_delay_as_long_as_the_period_is_refused(raw: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        period_of(TableOptions(raw))


@pytest.mark.parametrize(
    ("name", "hours"), [("UTC", 0), ("Z", 0), ("GMT+8", 8), ("+05:30", 5.5), ("UTC-0330", -3.5), ("Asia/Tokyo", 9)]
)
def test_names_of_zones_are_those_of_java(name: str, hours: float) -> None:
    zone = zone_of(name, "o")
    assert zone is not None
    assert zone.utcoffset(datetime(2023, 1, 1)) == timedelta(hours=hours)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"option 'sink\.process-time-zone': unknown time zone 'Mars/North'"):
        zone_of("Mars/North", "sink.process-time-zone")
