"""Compilation: never at import, once per kernel, also by several processes into one empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeidx.testing.limits import HANGS_SECONDS

SHOW = """
import lakeidx.codec.kernels as k, lakeidx.codec.hashes.murmur as m, lakeidx.codec.bucket as b
import lakeidx.codec.order.kernels as o, lakeidx.codec.order.normalized_key as q
from numba.core.dispatcher import Dispatcher
found = {id(d): (n, d) for s in (k, m, o, q, b) for n, d in vars(s).items() if isinstance(d, Dispatcher)}
def show():
    return {n: len(d.signatures) for n, d in found.values() if d.targetoptions.get("nogil")}
"""


ROWS = """
import pyarrow as pa
from lakeidx.types import parse_type, to_arrow
from lakeidx.codec.rows.binary_row_vec import encode_rows, hash_columns
texts = ["INT", "BIGINT", "VARCHAR(100)", "DECIMAL(38, 2)", "TIMESTAMP(6)"]
kinds = [parse_type(text) for text in texts]
rows = [[None] * 5, [2, 3, "some longer text", 4, 5], [1, 3, "some longer text", 4, 5]]
columns = [pa.array(values, pa.string() if "CHAR" in text else pa.int64()).cast(to_arrow(kind))
           for values, text, kind in zip(zip(*rows), texts, kinds)]
"""


def start(code: str, cache: Path | None) -> subprocess.Popen[str]:
    """Run code in a process whose kernels are kept in a folder; None: where those of the tests are."""
    env = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)})
    return subprocess.Popen(
        [sys.executable, "-c", SHOW + code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0, errors
    return out.strip()


@pytest.mark.slow
def test_importing_compiles_nothing(tmp_path: Path) -> None:
    said(start("assert len(show()) > 20; assert not any(show().values()), show()", tmp_path))
    assert not any(p.is_file() for p in tmp_path.rglob("*"))


@pytest.mark.slow
def test_no_kernel_is_compiled_twice() -> None:
    code = """
from lakeidx.codec.bucket import fixed_buckets
from lakeidx.codec.order.key import argsort_keys, run_starts
from lakeidx.codec.order.normalized_key import normalized_keys, search_sorted
from lakeidx.codec.rows.compacted_row import encode_compacted_rows
from lakeidx.codec.rows.compacted_row_read import decode_compacted_rows
encode_rows(columns, kinds)
hash_columns(columns, kinds)
fixed_buckets(columns[2:4], kinds[2:4], 2, "hive")
decode_compacted_rows(encode_compacted_rows(columns, kinds), kinds, texts)
for work in (argsort_keys, run_starts):
    work(columns, kinds)
for count in (2, 5):
    keys = normalized_keys(columns[:count], kinds[:count])
    search_sorted(keys, keys)
# Many keys of nothing but whole numbers are packed by a kernel of their own.
normalized_keys([pa.array(range(5000), pa.int64())], [parse_type("BIGINT NOT NULL")])
# One compilation of each kernel: an input of another memory layout would show as a second one.
assert set(show().values()) == {1}, show()
"""
    said(start(ROWS + code, None))


@pytest.mark.slow
def test_processes_that_compile_at_once(tmp_path: Path) -> None:
    # A few kernels that call each other: to compile all of the test above takes half a minute of the processor.
    code = """
print(hash_columns([pa.array(["apache paimon"])], [parse_type("STRING")])[0])
"""
    # The released Java's hash of this row.
    for process in [start(ROWS + code, tmp_path) for _ in range(2)]:
        assert said(process) == "-662155390"
    made = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert len([p for p in made if p.suffix == ".nbc"]) > 1
    assert said(start(ROWS + code, tmp_path)) == "-662155390"
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == made
