"""Seeded histories of a shared table. One that fails is cut to the steps that still make it fail, and told with its seed."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.kit.shared_table.keys import FLOAT_KEYS, MEMORY_INDEX, OTHER_ENGINES
from tests.kit.shared_table.machine import Machine
from tests.kit.shared_table.programs import HANDLES, OTHER_PROCESS, Call, Step
from tests.kit.small_tables import memory_folder
from tests.kit.table_history import ENGINES, Engine

#: What happens how often.
_WEIGHTS = {
    "upsert": 22, "again": 5, "overwrite": 3, "stage": 6, "advance": 10, "compact": 9, "expire": 6, "tag": 6, "untag": 2,
    "roll_back": 6, "drop": 2, "delete_by_vector": 6, "branch": 4, "clean": 2, "foreign_clean": 3, "lookup_files": 3,
    "add_column": 2, "other_bucket_number": 2, "clock": 2, "threads": 1, "rejected": 2, "write_on_branch": 3, "fast_forward": 2,
    "rescale": 1, "index_files": 1,
}  # fmt: skip
_ENGINES = (
    "deduplicate",
    "fixed-buckets",
    "deletion-vectors",
    "first-row",
    "aggregation",
    "sequence-field",
    "partial-update",
    "float-keys",
    "bloom-index",
    "memory-index",
    "changelog",
)
#: Share of histories in which another process takes part.
_OTHER_PROCESS = 0.05
#: The same where programs work one after another: nothing may be left over then. Some expiries die, and are finished later.
_UPKEEP = {
    "upsert": 20, "overwrite": 4, "compact": 10, "expire": 12, "tag": 10, "untag": 8, "roll_back": 5, "branch": 1,
}  # fmt: skip
#: Calls of the store that a step makes at most; a number beyond leaves what is inside undone.
_CALLS = 70
#: Calls by which an expiry deletes files; one that is to die at a later one does not.
_DELETES = 12


def history_of(
    seed: int, length: int, without: Sequence[str] = (), *, alone: bool = False
) -> tuple[Engine, list[Step]]:
    """Run the history of a seed.

    without   kinds of steps that are left out
    alone     programs work one after another
    """
    rng = random.Random(seed)
    name = rng.choices(_ENGINES, (5, 3, 5, 2, 1, 1, 1, 1, 1, 1, 2))[0]
    engine = ENGINES.get(name) or next(e for e in OTHER_ENGINES if e.name == name)
    maker = _Maker(rng, engine, without, alone)
    return engine, [maker.upsert(None), *(maker.any() for _ in range(length - 1))]


class _Maker:
    """Makes steps with all their arguments, not knowing what the table will hold by then."""

    def __init__(self, rng: random.Random, engine: Engine, without: Sequence[str], alone: bool) -> None:
        self.rng = rng
        self.vectors = "deletion-vectors.enabled" in engine.options
        self.alone = alone
        self.weights = {n: weight for n, weight in (_UPKEEP if alone else _WEIGHTS).items() if n not in without}
        self.batches: list[tuple[str, int]] = []
        self.handles = [None, *range(HANDLES), *range(HANDLES)]
        if engine is FLOAT_KEYS and not alone:
            self.weights["nan_key"] = 8
        if engine is MEMORY_INDEX:
            # A stage holds the index that its process shares. Another program of the process, run inside a reader's thread of that
            # stage, would wait for it for ever; a writer of its own waits until the stage is done.
            self.weights.pop("threads", None)
        if not alone and rng.random() < _OTHER_PROCESS:
            self.weights["race"] = 10
            self.handles += [OTHER_PROCESS] * 4

    def any(self) -> Step:
        name = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
        return getattr(self, name)(self._handle()) if hasattr(self, name) else self._plain(name)

    def upsert(self, handle: int | None, overwrite: str | None = None) -> Step:
        arguments = {"handle": handle, "batch": self._batch(), "content": self.batches[-1][1], "overwrite": overwrite}
        return self._with_others(Step("upsert", arguments))

    def overwrite(self, handle: int | None) -> Step:
        return self.upsert(handle, self.rng.choice(["partitions", "table"]))

    def again(self, handle: int | None) -> Step:
        batch, content = self.rng.choice(self.batches[-4:])
        if self.rng.random() < 0.3:
            content = self.rng.randrange(10**6)
        return Step("upsert", {"handle": handle, "batch": batch, "content": content})

    def stage(self, handle: int | None) -> Step:
        arguments = {"slot": self.rng.randrange(2), "handle": (handle or 0) % HANDLES, "batch": self._batch()}
        return Step("stage", arguments | {"content": self.batches[-1][1]})

    def advance(self, handle: int | None) -> Step:
        step = Step("advance", {"slot": self.rng.randrange(2), "stages": self.rng.choice([1, 2, 3, 4])})
        return self._with_others(step)

    def rejected(self, handle: int | None) -> Step:
        arguments = {"handle": handle, "batch": f"bad{self.rng.randrange(10**6)}", "rows": self.rng.randint(1, 3)}
        return Step("rejected", arguments | {"overwrite": self.rng.choice([None, "partitions", "table"])})

    def compact(self, handle: int | None) -> Step:
        if self.vectors and not self.alone and self.rng.random() < 0.4:
            # A delete by vector before it gives it something to do, one in its middle must not come back.
            step = Step("compact", {"handle": handle, "full": True})
            return replace(step, inside=(self._plain("delete_by_vector"),), at=Call(skip=self.rng.randrange(_CALLS)))
        step = Step("compact", {"handle": handle, "full": self.rng.random() < 0.6})
        if self.rng.random() < 0.3:
            only = self.rng.choice([None, None, 1])
            return replace(step, arguments=step.arguments | {"shrink": self.rng.random() < 0.6, "partition": only})
        return self._with_others(step)

    def expire(self, handle: int | None) -> Step:
        step = Step("expire", {"handle": handle, "retain": self.rng.randint(1, 3)})
        if self.alone and self.rng.random() < 0.3:
            return replace(step, dies=Call("delete", skip=self.rng.randrange(_DELETES)))
        if self.alone or self.rng.random() < 0.5:
            return step
        other = self.tag(None) if self.rng.random() < 0.6 else self.untag(None)
        return replace(step, inside=(other,), at=Call(skip=self.rng.randrange(_CALLS)))

    def tag(self, handle: int | None) -> Step:
        return Step("tag", {"handle": handle, "name": self._tag_name(), "back": self.rng.randrange(4)})

    def untag(self, handle: int | None) -> Step:
        return Step("untag", {"handle": handle, "name": self._tag_name()})

    def roll_back(self, handle: int | None) -> Step:
        tag = self._tag_name() if self.rng.random() < 0.3 else None
        return Step("roll_back", {"handle": handle, "back": self.rng.randint(1, 3), "tag": tag})

    def drop(self, handle: int | None) -> Step:
        return Step("drop", {"handle": (handle or 0) % HANDLES})

    def clean(self, handle: int | None) -> Step:
        return Step("clean", {"handle": handle})

    def nan_key(self, handle: int | None) -> Step:
        how = self.rng.choice(["rows", "jsonl", "parquet"])
        arguments = {"handle": handle, "batch": f"nan{self.rng.randrange(10**6)}", "content": self.rng.randrange(10**6)}
        return Step("nan_key", arguments | {"how": how})

    def lookup_files(self, handle: int | None) -> Step:
        return Step("lookup_files", {"handle": handle})

    def index_files(self, handle: int | None) -> Step:
        return Step("index_files", {"handle": handle})

    def _plain(self, name: str) -> Step:
        rng = self.rng
        arguments: dict[str, Callable[[], dict[str, Any]]] = {
            "delete_by_vector": lambda: {"pick": rng.randrange(20)},
            "write_on_branch": lambda: {
                "name": rng.choice("xy"),
                "batch": rng.choice(self.batches[-4:])[0],
                "content": rng.randrange(10**6),
            },
            "fast_forward": lambda: {"name": rng.choice("xy")},
            "rescale": lambda: {
                "bucket": rng.choice([1, 2, 3]),
                "batch": f"rescale{rng.randrange(10**6)}",
                "content": rng.randrange(10**6),
            },
            "race": lambda: {
                "batch": self._batch(),
                "content": self.batches[-1][1],
                "other": rng.choice(["compact", "expire"]),
            },
            "branch": lambda: {"name": rng.choice("xy"), "pick": rng.randrange(3)},
            "other_bucket_number": lambda: {"batch": f"refused{len(self.batches)}", "content": rng.randrange(10**6)},
            "threads": lambda: {"threads": rng.choice([2, 16])},
            "clock": lambda: {"seconds": rng.choice([0.0, -86_400.0, 86_400.0, 3.0])},
        }
        return Step(name, arguments[name]() if name in arguments else {})  # fmt: skip

    def _with_others(self, step: Step) -> Step:
        """Let other programs step in sometimes."""
        if self.alone or self.rng.random() > 0.4:
            return step
        if step.name != "advance" and self.rng.random() < 0.08:
            back = Step("roll_back", {"handle": None, "back": self.rng.randint(1, 2), "tag": None})
            return replace(step, inside=(back,), at=Call(skip=self.rng.randrange(_CALLS)))
        others = [self._other() for _ in range(self.rng.randint(1, 2))]
        if self.rng.random() < 0.2:
            # What was there when the step began expires, and the ids that it would take next.
            others = [self._upsert_of_another(), *others[:1], Step("expire", {"handle": None, "retain": 1})]
        return replace(step, inside=tuple(others), at=Call(skip=self.rng.randrange(_CALLS)))

    def _other(self) -> Step:
        rng = self.rng
        kind = rng.choice(["upsert", "upsert", "compact", "expire", "tag", *["delete_by_vector"] * 6 * self.vectors])
        if kind == "upsert":
            return self._upsert_of_another()
        if kind == "compact":
            return Step("compact", {"handle": None, "full": rng.random() < 0.6})
        if kind == "expire":
            return Step("expire", {"handle": None, "retain": 1})
        return self.tag(None) if kind == "tag" else self._plain(kind)

    def _upsert_of_another(self) -> Step:
        return Step("upsert", {"handle": None, "batch": self._batch(), "content": self.batches[-1][1]})

    def _handle(self) -> int | None:
        found: int | None = self.rng.choice(self.handles)
        return found

    def _batch(self) -> str:
        self.batches.append((f"b{len(self.batches)}", self.rng.randrange(10**6)))
        return self.batches[-1][0]

    def _tag_name(self) -> str:
        return self.rng.choice(["one", "two", "three"])


def failure_of(engine: Engine, steps: Sequence[Step]) -> AssertionError | None:
    """Run a history in a folder of its own; what went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="lakeidx-shared-", dir=memory_folder()))
    try:
        Machine(folder, engine).run(steps)
    except AssertionError as error:
        return error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def shortest(engine: Engine, steps: Sequence[Step], *, tries: int = 400) -> list[Step]:
    """Leave out steps, and what happens inside them, as long as the history still fails."""
    left = list(steps)
    size = max(1, len(left) // 2)
    while tries > 0:
        for start in range(0, len(left), size):
            shorter = left[:start] + left[start + size :]
            tries -= 1
            if shorter and failure_of(engine, shorter) is not None:
                left = shorter
                break
        else:
            if size == 1:
                return left
            size = max(1, size // 2)
    return left


def check_seed(
    seed: int, length: int = 18, *, shorten: bool = True, without: Sequence[str] = (), alone: bool = False
) -> None:
    """Run the history of a seed; AssertionError with the shortest part that fails."""
    engine, steps = history_of(seed, length, without, alone=alone)
    error = failure_of(engine, steps)
    if error is not None and shorten:
        error = failure_of(engine, shortest(engine, steps)) or error
    assert error is None, f"seed {seed}, {length} steps: {error}"
