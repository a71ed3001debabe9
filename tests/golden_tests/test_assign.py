"""Every line of assign.jsonl: what the released Java assigners did, call by call.

Java's walk over non-full buckets is followed exactly, so the alternative that the data allows (`lowest_non_full_bucket`)
is not made use of: the answer must be Java's own. Where Java drew at random, the draw itself is fed in (`picked`), and the
buckets offered to the draw must be the ones Java drew from.

Java 1.4.2 compares max-buckets with the largest id that the assigner task has given out in any partition; since 2.0, and here, it
is the partition's own limit. Calls in which this matters are listed by the number of their line.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from lakeidx.bucket_assignment.hash_map import HashMap
from lakeidx.bucket_assignment.partition_index import GrowingBuckets, IndexedBucket, PartitionIndex
from lakeidx.bucket_assignment.routing import group_rows
from lakeidx.bucket_assignment.rules import AssignRules, assigner_of
from lakeidx.errors import InvalidInputError
from tests.conftest import GOLDEN
from tests.kit.assigner_tasks import AssignerSet, AssignPlan, HashBucketAssigner, IndexLoader, PartitionKey

pytestmark = pytest.mark.golden
LINES = [json.loads(line) for line in (GOLDEN / "assign.jsonl").read_text(encoding="utf-8").splitlines()]
KINDS = {
    "partition-index",
    "partition-index-error",
    "hash-bucket-assigner",
    "simple-hash-bucket-assigner",
    "routing",
}
#: When a task of a streaming job drops the index of a partition; a batch has no task that lives on.
OF_STREAMING_JOBS = {"hash-bucket-assigner-prepare"}
LIMIT_OF_THE_TASK = {33, 46, 51, 58, 76, 81, 82, 83, 86, 87, 90, 91, 92}
ERRORS = {"Too more bucket": "dynamic-bucket.target-row-num", "list is empty": "dynamic-bucket.max-buckets"}


def of_kind(*kinds: str) -> list[Any]:
    return [
        pytest.param(line, id=f"{line['kind']}-{line['id']}")
        for line in LINES
        if line["kind"] in kinds and line["id"] not in LIMIT_OF_THE_TASK
    ]


def test_no_kind_is_left_out() -> None:
    assert {line["kind"] for line in LINES} <= KINDS | OF_STREAMING_JOBS


@dataclass
class JavasDraws:
    """A picker that gives what Java drew, and checks that the draw was due."""

    due: list[tuple[list[int], int]] = field(default_factory=list)

    def expect(self, calls: Sequence[Mapping[str, Any]]) -> None:
        assert self.due == [], "Java drew at random, lakeidx did not"
        self.due = [(sorted(c["random_of"]), c["picked"]) for c in calls if "random_of" in c]

    def __call__(self, known: np.ndarray, count: int) -> np.ndarray:
        draws = [self.due.pop(0) for _ in range(count)]
        assert all(choice == sorted(known.tolist()) for choice, _ in draws)
        return np.array([picked for _, picked in draws], np.int32)


def column(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32)


def answers(calls: Sequence[Mapping[str, Any]]) -> list[int]:
    return [call["picked"] if "picked" in call else call["bucket"] for call in calls]


def option_of(message: str) -> str:
    """The option our error must name where Java failed with this message."""
    return next(option for words, option in ERRORS.items() if words in message)


def rules_of(line: Mapping[str, Any]) -> AssignRules:
    return AssignRules(
        target_rows=line["target"],
        max_buckets=line["max_buckets"],
        num_assigners=line["num_assigners"],
        assign_id=line["assign_id"],
    )


@pytest.mark.parametrize("line", of_kind("partition-index"))
def test_partition_index(line: dict[str, Any]) -> None:
    draws = JavasDraws()
    known = line["hash_to_bucket"]
    counts, rules, hashes = dict(line["bucket_counts"]), rules_of(line), HashMap()
    for key_hash, bucket in known:
        hashes.store(column([key_hash]), bucket)
    index = PartitionIndex(draws, GrowingBuckets(rules, counts, list(counts)), hashes)
    for i, call in enumerate(line["calls"]):
        draws.expect([call])
        if "error" in call:
            with pytest.raises(InvalidInputError, match=option_of(call["error"])):
                index.assign_rows(column([call["hash"]]))
            break
        got = index.assign_rows(column([call["hash"]])).buckets
        assert got.tolist() == answers([call]), f"call {i}"
        if "total" in call:
            assert len(index.counts) == call["total"], f"call {i}"
    draws.expect([])
    if "end_total_buckets" in line:
        assert sorted(index.counts) == sorted(line["end_total_buckets"])


@pytest.mark.parametrize("line", of_kind("partition-index-error"))
def test_partition_index_error(line: dict[str, Any]) -> None:
    # "Nothing passes the filter": an assigner whose ids all lie beyond the last possible bucket.
    assert (line["filter"], line["max_buckets"]) == ("none", -1)
    rules = AssignRules(target_rows=line["target"], num_assigners=40_000, assign_id=39_999)
    index = PartitionIndex.load([], rules=rules, pick=JavasDraws())
    with pytest.raises(InvalidInputError, match=option_of(line["error"])) as failure:
        index.assign_rows(column([1]))
    assert f"hold {line['target']} keys" in str(failure.value)


def partition_bytes(value: int) -> bytes:
    """Prefixed BinaryRow of one INT: arity, then 8 bytes of header and null bits, then the value's slot."""
    return struct.pack(">i", 1) + struct.pack("<qi4x", 0, value)


def golden_files(line: Mapping[str, Any]) -> IndexLoader:
    """HASH files in the order Java scanned them."""
    files: dict[bytes, list[IndexedBucket]] = {}
    for entry in line["index"]:
        files.setdefault(partition_bytes(entry["partition"]), []).append((entry["bucket"], column(entry["hashes"])))
    return lambda partition: files.get(partition, [])


@dataclass
class Job:
    """All assigner tasks of a golden line."""

    line: Mapping[str, Any]
    draws: JavasDraws = field(default_factory=JavasDraws)

    def __post_init__(self) -> None:
        self.plan = AssignPlan(
            num_channels=self.line["num_channels"],
            num_assigners=self.line["num_assigners"],
            target_rows=self.line["target"],
            max_buckets=self.line["max_buckets"],
        )
        self.files = golden_files(self.line)
        self.made: dict[int, HashBucketAssigner] = {}
        self.set = AssignerSet(self.plan, self.make)
        self.keys = {p: PartitionKey(partition_bytes(p), h) for p, h in self.line["partition_hashes"]}
        self.value_of = {key.data: p for p, key in self.keys.items()}

    def make(self, assign_id: int) -> HashBucketAssigner:
        self.made[assign_id] = HashBucketAssigner(self.plan, assign_id, self.files, self.draws)
        return self.made[assign_id]

    def assign(self, calls: Sequence[Mapping[str, Any]]) -> list[int]:
        """Calls of one partition and task as one column, through the set."""
        self.draws.expect(calls)
        got = self.set.assign([self.keys[calls[0]["partition"]]], None, column([c["hash"] for c in calls]))
        self.draws.expect([])
        found: list[int] = got.buckets.tolist()
        return found

    def check_refused(self, call: Mapping[str, Any]) -> None:
        """Java refused a key of another task."""
        assert call["op"] == "wrong-assigner"
        belongs = int(call["error"].split("record assign id ")[1].split()[0])
        (task,) = self.plan.assigner_of(self.keys[call["partition"]].hash, column([call["hash"]])).tolist()
        assert task == belongs != call["assigner"]

    def check_end(self) -> None:
        for assign_id, totals in enumerate(self.line.get("end_total_buckets_per_assigner", [])):
            indexes = self.set.task(assign_id).indexes
            got = {str(self.value_of[p]): sorted(index.counts) for p, index in indexes.items()}
            assert got == {p: sorted(buckets) for p, buckets in totals.items()}


def runs(calls: Sequence[Mapping[str, Any]], *, longest: int | None) -> Iterator[list[Mapping[str, Any]]]:
    """Neighbouring calls that one column can carry: same partition, same task, no operation, no error."""
    single = iter(range(len(calls)))

    def key(call: Mapping[str, Any]) -> tuple[Any, ...]:
        alone = "op" in call or "error" in call
        return (call.get("partition"), call.get("assigner"), next(single) if alone else None)

    for _, group in groupby(calls, key):
        members = list(group)
        step = longest or len(members)
        for at in range(0, len(members), step):
            yield members[at : at + step]


@pytest.mark.parametrize("longest", [1, None], ids=["call-by-call", "columns"])
@pytest.mark.parametrize("line", of_kind("hash-bucket-assigner"))
def test_hash_bucket_assigner(line: dict[str, Any], longest: int | None) -> None:
    job = Job(line)
    for calls in runs(line["calls"], longest=longest):
        if "op" in calls[0]:
            job.check_refused(calls[0])
        elif "error" in calls[0]:
            with pytest.raises(InvalidInputError, match=option_of(calls[0]["error"])):
                job.assign(calls)
            break
        else:
            assert job.assign(calls) == answers(calls), calls
            assert {c["assigner"] for c in calls} <= set(job.made)
    job.check_end()


@pytest.mark.parametrize("longest", [1, None], ids=["call-by-call", "columns"])
@pytest.mark.parametrize("line", of_kind("simple-hash-bucket-assigner"))
def test_simple_hash_bucket_assigner(line: dict[str, Any], longest: int | None) -> None:
    draws = JavasDraws()
    # The line gives no number of channels: this assigner does not look at routing.
    plan = AssignPlan(
        num_channels=line["num_assigners"],
        num_assigners=line["num_assigners"],
        target_rows=line["target"],
        max_buckets=line["max_buckets"],
    )
    assigner = HashBucketAssigner(plan, line["assign_id"], lambda _: [], draws)
    for calls in runs(line["calls"], longest=longest):
        partition = PartitionKey(partition_bytes(calls[0]["partition"]), 0)
        draws.expect(calls)
        if "error" in calls[0]:
            with pytest.raises(InvalidInputError, match=option_of(calls[0]["error"])):
                assigner.assign(partition, column([calls[0]["hash"]]))
            break
        got = assigner.assign(partition, column([c["hash"] for c in calls])).buckets
        assert got.tolist() == answers(calls), calls
    draws.expect([])


@pytest.mark.parametrize("line", of_kind("routing"))
def test_routing(line: dict[str, Any]) -> None:
    rows = [dict(zip(line["columns"], row, strict=True)) for row in line["rows"]]
    assert rows
    for row in rows:
        shape = {"num_channels": row["num_channels"], "num_assigners": row["num_assigners"]}
        got = assigner_of(row["partition_hash"], column([row["key_hash"]]), **shape)
        assert got.tolist() == [row["assigner"]]
        rules = AssignRules(target_rows=1, num_assigners=row["num_assigners"], assign_id=row["assign_id"])
        assert rules.owns(row["bucket"]) == row["is_my_bucket"]
    shapes = {(row["num_channels"], row["num_assigners"]) for row in rows}
    for channels, assigners in shapes:
        same = [r for r in rows if (r["num_channels"], r["num_assigners"]) == (channels, assigners)]
        hashes = [column([r[name] for r in same]) for name in ("partition_hash", "key_hash")]
        groups = group_rows(assigner_of(*hashes, num_channels=channels, num_assigners=assigners), channels)
        for task in range(channels):
            assert groups[task].tolist() == [i for i, r in enumerate(same) if r["assigner"] == task]
