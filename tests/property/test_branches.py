"""Histories of a table with branches: upserts, deletes, compactions, expiries, orphans, tags; each state is its model's."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import lakeidx
from lakeidx.errors import LakeIdxError
from tests.kit.small_tables import table_spec

HISTORIES = int(os.environ.get("LAKEIDX_HISTORIES", "400" if os.environ.get("LAKEIDX_WHOLE") else "12"))
STEPS = 40
Model = dict[int, int]


def rows(table: lakeidx.Table) -> Model:
    found = table.scan().to_arrow()
    assert len(set(found["k"].to_pylist())) == found.num_rows
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


class History:
    """A table, its branches and their models; `log` is what a failure shows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        bucket = self.random.choice(["-1", "2"])
        options = {"bucket": bucket, "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}
        if self.random.random() < 0.3:
            options["deletion-vectors.enabled"] = "true"
        if bucket == "-1":
            options["dynamic-bucket.target-row-num"] = "8"
        spec = table_spec("k INT, v INT", ["k"], options=options)
        self.vectors = "deletion-vectors.enabled" in options
        self.uri = str(folder / "d.db" / "t")
        lakeidx.Table.create(self.uri, spec)
        self.models: dict[str, Model] = {"main": {}}
        self.tagged: dict[str, Model] = {}
        self.value = 0
        self.log: list[str] = []

    def table(self, branch: str) -> lakeidx.Table:
        return lakeidx.Table.open(self.uri, branch=None if branch == "main" else branch)

    def step(self) -> None:
        branch = self.random.choice(sorted(self.models))
        what = self.random.choice(
            ["upsert"] * 5
            + ["delete", "compact", "expire", "expire", "orphans", "tag", "untag", "branch", "unbranch", "forward"]
        )
        self.log.append(f"{what} {branch}")
        getattr(self, what)(branch)

    def upsert(self, branch: str) -> None:
        self.value += 1
        keys = self.random.sample(range(40), self.random.randint(1, 12))
        self.table(branch).upsert([{"k": k, "v": self.value} for k in keys])
        self.models[branch] |= dict.fromkeys(keys, self.value)
        self.settle(branch)

    def settle(self, branch: str) -> None:
        # Readers of tables with vectors see level 0 after a compaction.
        if self.vectors:
            self.table(branch).compact()

    def delete(self, branch: str) -> None:
        keys = self.random.sample(range(40), 5)
        self.table(branch).delete([{"k": k} for k in keys])
        for key in keys:
            self.models[branch].pop(key, None)
        self.settle(branch)

    def compact(self, branch: str) -> None:
        self.table(branch).compact(full=True)

    def expire(self, branch: str) -> None:
        self.table(branch).expire(retain_min=1, retain_max=self.random.choice([1, 2]), staging_age="0 s")

    def orphans(self, branch: str) -> None:
        found = self.table(branch).orphans(older_than="0 s", remove=True)
        self.log.append(f"  {len(found.files)} orphans")

    def tag(self, branch: str) -> None:
        if branch == "main" and self.table(branch).metadata.latest_snapshot() is not None:
            name = f"t{len(self.log)}"
            self.table(branch).create_tag(name)
            self.tagged[name] = dict(self.models[branch])

    def untag(self, branch: str) -> None:
        if self.tagged:
            name = self.random.choice(sorted(self.tagged))
            self.table("main").delete_tag(name)
            del self.tagged[name]

    def branch(self, branch: str) -> None:
        if len(self.models) < 4 and self.table("main").metadata.latest_snapshot() is not None:
            name = f"b{len(self.log)}"
            if self.tagged and self.random.random() < 0.5:
                tag = self.random.choice(sorted(self.tagged))
                self.table("main").create_branch(name, tag=tag)
                self.models[name] = dict(self.tagged[tag])
            else:
                snapshot = self.table("main").metadata.latest_snapshot()
                assert snapshot is not None
                self.table("main").create_branch(name, snapshot=snapshot.id)
                self.models[name] = dict(self.models["main"])

    def unbranch(self, branch: str) -> None:
        if branch != "main":
            self.table("main").delete_branch(branch)
            del self.models[branch]

    def forward(self, branch: str) -> None:
        if branch == "main":
            return
        try:
            self.table("main").fast_forward(branch)
        except LakeIdxError as error:
            self.log.append(f"  refused: {error}")
            return
        self.models["main"] = dict(self.models[branch])

    def check(self) -> None:
        for branch, model in self.models.items():
            assert rows(self.table(branch)) == model, (branch, self.log)
        for tag, model in self.tagged.items():
            found = self.table("main").scan(tag=tag).to_arrow()
            assert dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True)) == model, (tag, self.log)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_branches_and_tags_keep_what_they_have(tmp_path: Path, seed: int) -> None:
    history = History(tmp_path, seed)
    for _ in range(STEPS):
        history.step()
        history.check()
    for branch in history.models:
        verdict = history.table(branch).verify()
        assert not verdict.fails("error"), (branch, verdict, history.log)
