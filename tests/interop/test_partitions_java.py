"""Java and lakeidx agree on which partitions expire, and on the file that marks one done."""

from __future__ import annotations

import json
import os
import shutil
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import lakeidx
from tests.interop.java_judges import paimon_jars, run_program

pytestmark = pytest.mark.interop

TEXTS = [
    "2020-01-01", "2020-1-2 03:04:05", "20200101", "2020-13-45", "2999-01-01", "x", "2020-01-01 01:02:03.5", " 2020-01-01",
    "2020-01-01T00:00:00", "2020-01-01 24:00:00", "19999-01-01", "2020-02-31", "2020-01-01 ", "",
]  # fmt: skip


def judge(*arguments: object) -> list[str]:
    return run_program("PartitionJudge", paimon_jars(), *arguments)


def make(place: Path, type: str, days: list[Any], options: dict[str, str]) -> lakeidx.Table:
    fields = [{"name": "dt", "type": type}, {"name": "h", "type": "STRING"}, {"name": "k", "type": "INT"}]
    table = lakeidx.Table.create(
        place / "w" / "d.db" / "t",
        {
            "fields": fields,
            "primaryKeys": ["dt", "h", "k"],
            "partitionKeys": ["dt", "h"],
            "options": {"bucket": "1", "partition.expiration-time": "10 d", **options},
        },
    )
    table.upsert([{"dt": d, "h": f"{n:02}", "k": 1} for n, d in enumerate(days)])
    return table


@pytest.mark.parametrize(
    ("type", "days", "options"),
    [
        ("STRING", TEXTS, {}),
        ("STRING", [f"2020-01-{d:02}" for d in range(1, 9)], {"partition.expiration-max-num": "3"}),
        ("STRING", ["20200101", "29990101", "2020-01-01", "20201301"], {"partition.timestamp-formatter": "yyyyMMdd"}),
        ("STRING", ["20200101", "29990101", "20200231"],
         {"partition.timestamp-formatter": "yyyyMMdd HH", "partition.timestamp-pattern": "$dt $h"}),
        ("STRING", ["1.2.2020", "01.02.2020", "31.4.2020"], {"partition.timestamp-formatter": "d.M.yyyy"}),
        ("INT", [20200101, 29990101], {"partition.timestamp-formatter": "yyyyMMdd"}),
        ("DATE", [date(2020, 1, 1), date(2999, 1, 1)], {}),
        ("TIMESTAMP(3)", [datetime(2020, 1, 1), datetime(2020, 1, 1, 3, 4, 5)], {}),
        ("STRING", ["a", "b"], {"partition.expiration-strategy": "update-time", "partition.expiration-time": "1 ms"}),
        ("STRING", ["a", "b"], {"partition.expiration-strategy": "update-time"}),
    ],
)  # fmt: skip
def test_the_same_partitions_expire(tmp_path: Path, type: str, days: list[Any], options: dict[str, str]) -> None:
    table = make(tmp_path, type, days, options)
    shutil.copytree(tmp_path / "w", tmp_path / "java")
    time.sleep(0.01)
    theirs = judge("expire", tmp_path / "java" / "d.db" / "t")
    table.expire_partitions()
    left = lakeidx.Table.open(tmp_path / "java" / "d.db" / "t").scan(columns=["dt", "h"]).to_arrow().to_pylist()
    assert table.scan(columns=["dt", "h"]).to_arrow().to_pylist() == left
    assert len(theirs) == len(days) - len(left)


def test_a_partition_is_marked_as_java_marks_it(tmp_path: Path) -> None:
    table = make(tmp_path, "STRING", ["a b"], {})
    file = Path(table.uri, "dt=a b", "h=00", "_SUCCESS")
    judge("done", table.uri, "dt=a b/h=00/")
    theirs = file.read_text(encoding="utf-8")
    table.mark_done(["dt=a b,h=00"])
    ours = file.read_text(encoding="utf-8")
    created, modified = (json.loads(t) for t in (theirs, ours))
    assert ours == theirs.replace(
        f'"modificationTime" : {created["modificationTime"]}', f'"modificationTime" : {modified["modificationTime"]}'
    )
    judge("done", table.uri, "dt=a b/h=00/")
    assert json.loads(file.read_text(encoding="utf-8"))["creationTime"] == created["creationTime"]
    assert timedelta(milliseconds=modified["modificationTime"]) <= timedelta(seconds=time.time())
    assert os.path.exists(file)
