"""Runs small batches by the command line with Numba put off, then every call of a small kernel once more, compiled.

`test_deferred` runs this in a process of its own. Prints the kernels that ran; ends with an error when a call gave something else
in Python than compiled, or left another array behind.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from typer.testing import CliRunner

from lakeidx.codec import deferred
from lakeidx.codec.deferred import StandIn

Args = tuple[Any, ...]
CALLS: list[tuple[StandIn, Args, Args, Any]] = []
TABLES: dict[str, tuple[dict[str, str], list[str], dict[str, str]]] = {
    "numbers": ({"k": "BIGINT", "v": "DOUBLE"}, ["k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "70"}),
    "texts": ({"s": "STRING", "n": "INT", "k": "BIGINT"}, ["s", "n"], {"bucket": "-1"}),
    # More files in a commit than a manifest's partitions are told apart without Arrow.
    "decimals": ({"k": "BIGINT", "d": "DECIMAL(10, 2)", "s": "STRING"}, ["k", "d"], {"bucket": "70"}),
    # What merged keeps the order of all rows, for the changes.
    "changes": ({"k": "BIGINT", "n": "INT"}, ["k"], {"bucket": "1", "changelog-producer": "full-compaction"}),
    "parts": (
        {"p": "STRING", "q": "INT", "k": "BIGINT", "t": "TIMESTAMP(9)", "u": "TIMESTAMP(3)"},
        ["p", "q", "k"],
        {"bucket": "-1"},
    ),
}


def recorded(stand_in: StandIn, *args: Any) -> Any:
    """Run in Python, and keep arguments, what became of them and the result."""
    if not stand_in._small:
        sys.exit(f"{name_of(stand_in)} is not small: these commands import Numba")
    with deferred._STATE.lock:
        if deferred._STATE.running:
            return stand_in._python(*args)
        before = copied(args)
        result = deferred._STATE.run(stand_in._python, args)
        CALLS.append((stand_in, before, copied(args), result))
        return result


def name_of(stand_in: StandIn) -> str:
    """Module and function."""
    return f"{stand_in._python.__module__}.{stand_in._python.__name__}"


def copied(args: Args) -> Args:
    """Copy arrays; what may not be written stays so."""
    return tuple(_copy(a) if isinstance(a, np.ndarray) else a for a in args)


def _copy(array: Any) -> Any:
    out = array.copy()
    out.flags.writeable = array.flags.writeable
    return out


def same(a: Any, b: Any) -> bool:
    """Tell whether two arguments or results are equal, bit for bit."""
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def run_commands(folder: Path) -> None:
    """Batches, scans, compactions and questions for keys, of tables of several kinds."""
    from lakeidx.cli.main import app

    def run(*words: str) -> None:
        done = CliRunner().invoke(app, list(words))
        if done.exit_code != 0:
            raise SystemExit(f"{words}: {done.output} {done.exception}")

    for name, (types, keys, options) in TABLES.items():
        fields = [{"name": n, "type": t + (" NOT NULL" if n in keys else "")} for n, t in types.items()]
        spec = {"fields": fields, "primaryKeys": keys, "partitionKeys": keys[:-1] * ("p" in keys), "options": options}
        (folder / "spec.json").write_text(json.dumps(spec))
        table = str(folder / f"{name}.db" / "t")
        run("table", "create", table, "--schema", str(folder / "spec.json"))
        for number in range(4):
            run("upsert", table, str(landing(folder, list(types), number)))
        # What is scanned is merged, of several files before, of one after.
        run("scan", table)
        run("compact", table, "--full")
        run("scan", table)


def landing(folder: Path, columns: list[str], number: int) -> Path:
    """Rows with the numbers and texts at which arithmetic wraps and escapes begin; text also as CSV."""
    # The last batch is small against the index, and not so small that it searches that: it reads it by a filter.
    edges = [2**63 - 1, -(2**63), -1, 2**32, -(2**31), 2**31 - 1, 255, 256]
    many = [*range(30)] if number == 3 else [*range(40 * number, 40 * number + 60), *edges]
    whole = {
        "k": pa.array(many, pa.int64()),
        "n": pa.array([(k * 2654435761 + 2**31) % 2**32 - 2**31 for k in many], pa.int32()),
        "v": pa.array([k * -1.5 for k in many]),
        "s": pa.array([f"\x00\x01{k % 7}" + "é" * (k % 11) + ', "quoted"\n' * (k % 3) for k in many]),
        "p": pa.array([f"p{k % 3}" for k in many]),
        "q": pa.array([k % 2 for k in many], pa.int32()),
        "d": pa.array([decimal.Decimal(k % 10**7 - 500).scaleb(-2) for k in many], pa.decimal128(10, 2)),
        "t": pa.array([datetime.datetime(1960, 1, 1) + datetime.timedelta(hours=k % 10**6) for k in many]),
        "u": pa.array([k % 10**9 for k in many], pa.timestamp("ms")),
    }
    rows = pa.table({n: whole[n] for n in columns})
    if number == 1 and "s" in columns:
        pc.write_csv(rows, folder / "landing.csv")
        return folder / "landing.csv"
    pq.write_table(rows, folder / f"landing{number}.parquet")
    return folder / f"landing{number}.parquet"


def compare() -> set[str]:
    """Run all kept calls compiled; names of the kernels."""
    for stand_in, before, after, result in CALLS:
        args = copied(before)
        found = stand_in(*args)
        if not same(result, found) or not all(map(same, after, args)):
            sys.exit(f"{name_of(stand_in)}{before}: {result}, {after} in Python; {found}, {args} compiled")
    return {name_of(stand_in) for stand_in, *_ in CALLS}


def main() -> None:
    """Run, compare, print."""
    original = StandIn.__call__
    StandIn.__call__ = recorded  # type: ignore[method-assign, assignment]
    deferred.defer()
    run_commands(Path(sys.argv[1]))
    if "numba" in sys.modules:
        sys.exit("something imported Numba")
    StandIn.__call__ = original  # type: ignore[method-assign]
    deferred._STATE.left = -1
    print(*sorted(compare()))


if __name__ == "__main__":
    main()
