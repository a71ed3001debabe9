"""A sample of the histories of a shared table with Java in them: it deletes by deletion vector, writes and compacts between any
two steps and in the middle of others, and reads what the model says at the end.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kit.java_paimon import JavaPaimon, java_hashes
from tests.kit.shared_table.machine import Machine
from tests.kit.shared_table.model import Effect
from tests.kit.shared_table.programs import Step, records_of
from tests.kit.shared_table.runs import history_of
from tests.kit.table_history import Engine, State

pytestmark = pytest.mark.interop

#: Histories of each engine.
HISTORIES = 2
#: Java's words for these keys and their order in a JSON file are no subject of this test.
_LEFT_OUT = ("float-keys",)


class JavaToo(Machine):
    """The machine, with Java for the other programs."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        super().__init__(folder, engine)
        self.java = JavaPaimon(str(folder / "wh"), "d.t")
        self.file = folder / "rows.jsonl"
        self.by_java = 0
        # What Java leaves over is not asked here.
        self.tidy = False

    def _step_delete_by_vector(self, step: Step, pick: int) -> None:
        """Delete a row: Java's writer compacts the new file away at once, which marks the row in its old one."""
        keys = sorted(self.model.newest.visible)
        if "deletion-vectors.enabled" in self.engine.options and keys:
            key = keys[pick % len(keys)]
            self._java_writes([(*key, (None, None, None, None), "-D")])

    def _step_java_write(self, step: Step, content: int) -> None:
        self._java_writes(records_of(content, self.engine))

    def _step_java_compact(self, step: Step) -> None:
        if self.model.lineage:
            self.java.run("compact")
            self.by_java += 1
            self.model.observe(Effect("compaction by Java"))

    def _java_writes(self, records: Sequence[Any]) -> None:
        self.by_java += 1
        names = ("text", "n", "m", "s")
        rows = [
            {"p": str(p), "k": str(k), "_kind": kind}
            | {n: None if v is None else str(v) for n, v in zip(names, values, strict=True)}
            for p, k, values, kind in records
        ]
        self.java.write(rows, self.file)
        self.model.observe(Effect("batch by Java", f"java{self.by_java}", list(records), disturbed=True))
        # Which of the rows Java's own compaction has taken up is known now, and not after the next batch.
        self._check_newest()

    def check_java(self) -> None:
        """Java sees what the model says."""
        if not self.model.lineage:
            return
        seen: State = {(r["p"], r["k"]): (r["text"], r["n"], r["m"], r["s"]) for r in self.java.json("read")}
        assert seen == self.model.newest.visible
        if self.has_hash_index:
            found = {p: hashes for p, hashes in java_hashes(self.java).items() if hashes}
            assert found == self.hashes()


def with_java(seed: int) -> tuple[Engine, list[Step]]:
    """Run the history of a seed, with steps of Java between its own."""
    engine, steps = history_of(seed, 14)
    rng = random.Random(seed)
    out: list[Step] = []
    for step in steps:
        out.append(step)
        if rng.random() < 0.25:
            out.append(
                Step("java_write", {"content": rng.randrange(10**6)}) if rng.random() < 0.6 else Step("java_compact")
            )
    return engine, out


def seeds() -> list[int]:
    """First seeds of each engine that takes part."""
    found: dict[str, list[int]] = {}
    for seed in range(200):
        of_engine = found.setdefault(history_of(seed, 1)[0].name, [])
        of_engine += [seed] if len(of_engine) < HISTORIES else []
    return sorted(s for name, seeds in found.items() if name not in _LEFT_OUT for s in seeds)


@pytest.mark.parametrize("seed", seeds())
def test_java_takes_part_and_confirms(seed: int, tmp_path: Path) -> None:
    engine, steps = with_java(seed)
    machine = JavaToo(tmp_path, engine)
    machine.run(steps)
    machine.check_java()
