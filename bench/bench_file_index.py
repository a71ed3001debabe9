"""Speed of file indexes per core: building one from a column, and asking one.

Before timing, every case is checked: the index, read back, must hold every selected row for every question, and the
exact ones no other (plain filtering of the column says which). One thread, processor time, best of several rounds.

    python -m bench.bench_file_index [--rows 1000000,6000000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lakeidx.file_index.container import encode_container
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.types import FileIndexResult, Verdict
from lakeidx.file_index.registry import file_index_of
from lakeidx.predicate import evaluate
from lakeidx.predicate.parse import parse_where
from lakeidx.types import Field, parse_type


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    case           what was done
    rows           rows of the column
    million_per_s  rows per second of the best round, in millions (building)
    microseconds   the best round (asking)
    bytes          size of the payload
    targets        what issue 7 asks of this case, and whether it is kept
    """

    case: str
    rows: int
    million_per_s: float | None
    microseconds: float | None
    bytes: int
    targets: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """An index over a column.

    isolates   why the case is here
    questions  WHERE texts asked of it
    exact      answers hold no other rows than the selected ones
    least      million rows per second that issue 7 asks of building it
    """

    name: str
    isolates: str
    index: str
    type: str
    column: pa.Array
    questions: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    exact: bool = True
    least: float | None = None

    @property
    def fields(self) -> list[Field]:
        """The only column."""
        return [Field(0, "c", parse_type(self.type))]

    def build(self) -> bytes:
        """Return the payload."""
        writer = file_index_of(self.index).create_writer(parse_type(self.type), self.options)
        writer.add(self.column)
        payload = writer.finish()
        assert payload is not None
        return payload


def cases(rows: int) -> list[Case]:
    """Measure the grid for one size."""
    rng = np.random.default_rng(rows)
    keys = rng.integers(0, max(rows // 30, 2), rows)
    words = pa.array([f"value {i:03}" for i in range(100)])
    modes = words.take(pa.array(rng.integers(0, 100, rows)))
    days = pa.array(rng.integers(8000, 10500, rows).astype(np.int32)).cast(pa.date32())
    distinct = pa.array(rng.permutation(rows).astype(np.int64))
    texts = pa.array(np.char.mod("%016d", rng.integers(0, 10**9, min(rows, 1_000_000))).tolist())
    key, text = f"c = {keys[0]}", f"c = '{texts[0].as_py()}'"
    filters = {"items": str(max(rows // 30, 10))}
    numbers, plain = pa.array(keys % 100), pa.array(keys)
    money = pa.array(rng.integers(-(10**7), 10**7, rows))
    in_days = ["c BETWEEN '1994-08-23' AND '1994-09-22'", "c < '1992-03-06'", "c = '1994-08-23'"]
    mode = "c = 'value 007'"
    encoded = modes.dictionary_encode()
    one = {"version": "1"}
    return [
        Case("bloom, bigint", "hash of numbers", "bloom-filter", "BIGINT", plain, [key, "c = -5"], filters, False, 5),
        Case("bloom, 16-byte strings", "hash of strings", "bloom-filter", "STRING", texts, [text], filters, False),
        Case("bloom, dictionary", "each value once", "bloom-filter", "STRING", encoded, [mode], {"items": "100"}, False),
        Case("bitmap, 100 numbers", "grouping rows", "bitmap", "BIGINT", numbers, ["c = 7", "c IN (1, 2, 3)"], least=10),
        Case("bitmap, 100 strings", "distinct strings first", "bitmap", "STRING", modes, [mode], least=10),
        Case("bitmap, version 1", "the older form", "bitmap", "STRING", modes, [mode], one),
        Case("bitmap, all distinct", "one entry per row", "bitmap", "BIGINT", distinct, ["c = 5", "c = -5"]),
        Case("range-bitmap, 2,500 days", "dictionary and 12 slices", "range-bitmap", "DATE", days, in_days),
        Case("range-bitmap, all distinct", "the largest dictionary", "range-bitmap", "BIGINT", distinct, ["c < 100", "c = 5"]),
        Case("bsi, days", "14 slices, no dictionary", "bsi", "DATE", days, in_days),
        Case("bsi, money", "two signs, many slices", "bsi", "BIGINT", money, ["c > 1000000"]),
    ]  # fmt: skip


def allowed(result: FileIndexResult, rows: int) -> BitMap:
    """Return the rows an answer lets through."""
    if isinstance(result, BitMap):
        return result
    return BitMap(range(rows)) if result is Verdict.REMAIN else BitMap()


def check(case: Case) -> bytes:
    """Build the container of a case, and compare its answers with plain filtering; raises AssertionError."""
    container = encode_container({"c": {case.index: case.build()}})
    table = pa.table({"c": case.column})
    for question in case.questions:
        pred = parse_where(question, case.fields)
        got = allowed(evaluate_container(container, pred, case.fields, rows=len(table)), len(table))
        wanted = BitMap(np.flatnonzero(evaluate(pred, table).to_numpy()).astype(np.uint32))
        if not wanted <= got or (case.exact and got != wanted):
            raise AssertionError(f"{case.name}: {question} gives {len(got)} rows, {len(wanted)} are selected")
    return container


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest round: one thread, and other work on the machine does not count."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - started) / 1e9)
    return max(best, 1e-9)


def measure(case: Case, rounds: int) -> list[Figure]:
    """Time one case: building, then each question on a container in memory."""
    container = check(case)
    rows = len(case.column)
    speed = rows / best_of(rounds, case.build) / 1e6
    targets = (
        None if case.least is None else f"issue 7: {case.least:g} M/s: {'kept' if speed >= case.least else 'MISSED'}"
    )
    figures = [Figure(f"build {case.name}", rows, speed, None, len(container), targets)]
    for question in case.questions:
        pred = parse_where(question, case.fields)
        asked = best_of(rounds, partial(evaluate_container, container, pred, case.fields, rows=rows))
        figures.append(Figure(f"ask {case.name}: {question}", rows, None, asked * 1e6, len(container)))
    return figures


def main(argv: list[str] | None = None) -> int:
    """Check and time every case; one line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", default="1000000,6000000", help="sizes, separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many counts")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    args = parser.parse_args(argv)
    machine = {"machine": platform.machine(), "python": platform.python_version(), "pyarrow": pa.__version__}
    for rows in (int(text) for text in args.rows.split(",")):
        for case in cases(rows):
            for figure in measure(case, args.rounds):
                if args.json:
                    print(json.dumps({**asdict(figure), **machine}), flush=True)
                else:
                    speed = (
                        f"{figure.million_per_s:8.1f} M/s" if figure.million_per_s else f"{figure.microseconds:9.0f} µs"
                    )
                    print(
                        f"{figure.rows:>10,}  {speed}  {figure.bytes:>12,} B  {figure.case}  {figure.targets or ''}",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
