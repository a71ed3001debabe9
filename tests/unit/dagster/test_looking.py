"""Which names of landing files a message of the event queue is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from lakeidx.dagster.resources import StoreResource
from lakeidx.dagster.sensors.looking import FoundFiles, landing_names, look, remember_look
from lakeidx.dagster.sensors.planning import MAX_BATCHES, LandingCursor, PlannedBatch, plan_batches
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import name_of
from lakeidx.storage.s3.event_queue import QueueMessage


def pipeline(path: str = "s3://lake/in/orders/", **landing: Any) -> PipelineConfig:
    fields = [{"name": "k", "type": "BIGINT"}]
    where = {"path": path, "pattern": "*.csv", "events": {"url": "https://q/1/a"}, **landing}
    return PipelineConfig.model_validate({"table": "d.t", "warehouse": "/lake", "landing": where, "fields": fields})


def message(*keys: str, bucket: str = "lake") -> str:
    s3 = ({"bucket": {"name": bucket}, "object": {"key": key}} for key in keys)
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": s3} for s3 in s3]})


def test_files_right_in_the_folder_that_match_the_pattern() -> None:
    keys = ("in/orders/a+b.csv", "in/orders/c.txt", "in/orders/deeper/d.csv", "in/orders/", "in/orders/e%2Ff.csv")
    assert landing_names(pipeline(), message(*keys)) == {"a b.csv"}
    assert landing_names(pipeline("s3a://lake"), message("x.csv", "y/z.csv")) == {"x.csv"}


def test_a_marker_stands_for_its_file() -> None:
    keys = ("in/orders/a.csv", "in/orders/a.csv.done", "in/orders/b.txt.done", "in/orders/.done")
    assert landing_names(pipeline(success_marker=".done"), message(*keys)) == {"a.csv", "a.csv.done"}


@pytest.mark.parametrize(
    ("key", "bucket"),
    [
        ("in/a.csv", "lake"), ("in/orders", "lake"), ("in/orders2/a.csv", "lake"), ("in/orders/a.csv", "other"),
        ("/in/orders/a.csv", "lake"), ("in/orders/../secret.csv", "lake"), ("in/orders/%2E%2E/secret.csv", "lake"),
    ],
)  # fmt: skip
def test_what_lies_elsewhere_is_refused(key: str, bucket: str) -> None:
    with pytest.raises(
        InvalidInputError, match=r"is not in s3://lake/in/orders/: configure the bucket to send"
    ) as caught:
        landing_names(pipeline(), message("in/orders/a.csv", key, bucket=bucket))
    assert len(str(caught.value).splitlines()) == 1


@dataclass
class Lake:
    """A landing folder and its queue; counts how often each was asked."""

    names: list[str]
    messages: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    listed: int = 0
    received: int = 0

    def open(self, uri: str, options: Mapping[str, str] | None = None) -> Lake:
        return self

    def queue(self, url: str) -> Lake:
        return self

    def info(self, path: str) -> FileInfo | None:
        return FileInfo(path, name_of(path), 1, 1_500, False) if name_of(path) in self.names else None

    def list(self, folder: str) -> list[FileInfo]:
        self.listed += 1
        return [FileInfo(f"{folder.rstrip('/')}/{name}", name, 1, 1_999, False) for name in sorted(self.names)]

    def receive(self, most: int) -> Sequence[QueueMessage]:
        self.received += 1
        return [QueueMessage(f"m{i}", f"r{i}", body) for i, body in enumerate(self.messages[:most])]

    def delete(self, receipts: Sequence[str]) -> Sequence[str]:
        self.deleted += receipts
        return ["ReceiptHandleIsInvalid" for r in receipts if r == "r-old"]


def a_tick(
    lake: Lake, config: PipelineConfig, cursor: LandingCursor, now_ms: int
) -> tuple[FoundFiles, list[PlannedBatch], LandingCursor]:
    found = look(config, cast(StoreResource, lake), cursor, now_ms)
    batches, after = plan_batches(
        found.files, cursor, config.landing, lambda name: name, now_ms=now_ms, whole=found.whole
    )
    remember_look(found, after, now_ms, all_taken=len(batches) < MAX_BATCHES)
    return found, batches, LandingCursor.decode(after.encode("m"), {"m": after.encode_marks()}.get)


def test_the_folder_is_listed_until_all_has_its_batch_and_again_after_a_day() -> None:
    lake = Lake([f"{i:03d}.csv" for i in range(70)])
    _, batches, cursor = a_tick(lake, pipeline(), LandingCursor(), 1_000)
    assert (len(batches), cursor.listed, cursor.pending) == (50, 0, [])
    _, batches, cursor = a_tick(lake, pipeline(), cursor, 2_000)
    assert (len(batches), cursor.listed, lake.listed, lake.received) == (20, 2_000, 2, 0)
    # A listing gives times in milliseconds here, a single answer in seconds: the file is the same.
    lake.names.append("new.csv")
    lake.messages = [message("in/orders/000.csv"), message("in/orders/new.csv"), "{}"]
    found, batches, cursor = a_tick(lake, pipeline(), cursor, 3_000)
    assert [f.name for b in batches for f in b.files] == ["new.csv"]
    assert (found.received, found.left, cursor.receipts, lake.deleted) == (3, 1, ["r0", "r1"], [])
    assert [w.partition(": no event")[0] for w in found.warnings] == ["https://q/1/a: message m2 stays in the queue"]
    lake.messages = []
    _, batches, cursor = a_tick(lake, pipeline(), cursor, 2_000 + 24 * 3_600_000)
    assert (batches, lake.listed, lake.received, lake.deleted) == ([], 3, 1, ["r0", "r1"])
    assert (len(cursor.seen), cursor.receipts) == (71, [])


def test_while_many_files_wait_their_messages_wait_in_the_queue() -> None:
    lake = Lake([f"{i:03d}.csv" for i in range(120)])
    lake.messages = [message(*(f"in/orders/{name}" for name in lake.names))]
    _, batches, cursor = a_tick(lake, pipeline(), LandingCursor(listed=1), 1_000)
    assert (len(batches), len(cursor.pending), lake.received, lake.listed) == (50, 70, 1, 0)
    _, batches, cursor = a_tick(lake, pipeline(), cursor, 2_000)
    assert (len(batches), len(cursor.pending), lake.received) == (50, 20, 1)
    lake.messages = []
    _, batches, cursor = a_tick(lake, pipeline(), cursor, 3_000)
    assert (len(batches), cursor.pending, lake.received) == (20, [], 2)


def test_a_message_that_was_not_deleted_is_named() -> None:
    found, _, _ = a_tick(Lake([]), pipeline(), LandingCursor(listed=1, receipts=["r-old"]), 1_000)
    assert found.warnings == ["a message was not deleted and may come again: ReceiptHandleIsInvalid"]
