"""A stream beside the programs of `interleaved`: it must give every batch once, whoever overtakes, compacts or expires.

What a stream has read is what its consumer says when it is recorded; a step that comes again, because the stream died before it
was recorded, must come with the same rows under the same id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeidx.api.table import Table
from lakeidx.table.stream.consumer import StreamConsumer
from lakeidx.table.stream.follow import ChangeFollower, run_stream
from lakeidx.table.stream.start import Start

Key: TypeAlias = tuple[int, int]
_Row: TypeAlias = tuple[str, int, int, str]


@dataclass
class StreamReader:
    """One stream with a consumer, which many processes run one after the other.

    of_changes   the table makes a changelog of whole rows: what was read, applied in order, is the table; else each row that was
                 read carries the marks of its batch
    """

    name: str
    of_changes: bool
    steps: dict[str, list[_Row]] = field(default_factory=dict)

    def read(self, table: Table) -> None:
        """Go on where the consumer stands, up to the newest snapshot."""
        consumer = StreamConsumer(table.metadata, self.name)
        for step in run_stream(ChangeFollower(table.metadata), consumer, Start()):
            rows = [(r["_rowkind"], r["p"], r["k"], r["v"]) for r in step.changes.to_arrow().to_pylist()]
            before = self.steps.setdefault(step.batch_id, rows)
            assert sorted(before) == sorted(rows), f"{step.batch_id} came again with {rows}, was {before}"

    def check(self, marks: Mapping[str, Sequence[Key]], now: Mapping[Key, str]) -> None:
        """Check a stream that has read everything.

        marks   batch -> its keys
        now     what the table holds
        """
        if self.of_changes:
            state: dict[Key, str] = {}
            for rows in self.steps.values():
                for kind, p, k, v in rows:
                    if kind in ("+I", "+U"):
                        state[p, k] = v
                    else:
                        was = state.pop((p, k), None)
                        assert was == v, f"stream {self.name}: {kind} of {v!r} in {p, k}, which was {was!r}"
            assert state == dict(now), f"stream {self.name} gave {state}, the table has {dict(now)}"
            return
        seen = Counter((m, (p, k)) for rows in self.steps.values() for _, p, k, v in rows for m in v.split(","))
        wanted = Counter((batch, key) for batch, keys in marks.items() for key in keys)
        assert seen == wanted, f"stream {self.name}: lost {wanted - seen}, more than once {seen - wanted}"
