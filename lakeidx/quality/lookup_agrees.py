"""The rule that lookup files say what the table says: a sample of present and of absent keys, looked up and scanned."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.binary_row_vec import encode_rows
from lakeidx.lookup.point import TableLookup
from lakeidx.quality.result import SAMPLE_LIMIT, RuleResult, Severity
from lakeidx.table.handle import TableHandle


def check_lookup_agrees(
    table: TableHandle, *, sample_rows: int = 1000, seed: int = 0, lookup: TableLookup | None = None
) -> RuleResult:
    """The lookup of some keys gives the rows a scan of the same snapshot gives, and nothing for keys that are not there.

    sample_rows   present keys asked, and as many made of their columns mixed anew, the last one moved away: few of those
                  exist (the scan says which)
    seed          of the sample
    errors        CorruptFileError, UnavailableError
    cost          a scan of the whole table, in memory
    """
    lookup = lookup or TableLookup(table.metadata)
    names = list(table.schema.primary_keys)
    lookup.lookup(_no_keys(table))
    snapshot_id = lookup.snapshot_id
    rows = table.scan(snapshot=snapshot_id).to_arrow() if snapshot_id is not None else table.scan().to_arrow()
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(rows.num_rows, min(sample_rows, rows.num_rows), replace=False))
    expected = rows.take(pa.array(chosen))
    answer = lookup.lookup(expected.select(names))
    different = _different_rows(answer.rows, expected, answer.found)
    absent = _absent_keys(rows.select(names), chosen, rng)
    present = _is_present(absent, rows.select(names), table)
    absent_answer = lookup.lookup(absent)
    too_many = absent_answer.found & ~present
    missing = int((~answer.found).sum() + (present & ~absent_answer.found).sum())
    figures = {
        "keys_asked": len(chosen) + absent.num_rows,
        "keys_missing": missing,
        "keys_too_many": int(too_many.sum()),
        "rows_different": int(different.sum()),
        "lookup_files_asked": lookup.figures.lookup_files,
        "data_files_asked": lookup.figures.data_files,
    }
    bad = np.flatnonzero(~answer.found | different)[:SAMPLE_LIMIT]
    shown = expected.select(names).take(pa.array(bad)).to_pylist()
    shown += absent.take(pa.array(np.flatnonzero(too_many)[:SAMPLE_LIMIT])).to_pylist()
    return RuleResult(
        name="lookup_store_agrees",
        passed=missing + figures["keys_too_many"] + figures["rows_different"] == 0,
        severity=Severity.ERROR,
        figures=figures,
        sample=tuple({k: str(v) for k, v in row.items()} for row in shown[:SAMPLE_LIMIT]),
        description="The lookup store gives the rows that a scan gives.",
    )


def _no_keys(table: TableHandle) -> pa.Table:
    schema = table.schema.arrow_schema
    return schema.empty_table().select(list(table.schema.primary_keys))


def _different_rows(got: pa.Table, expected: pa.Table, found: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """bool[n]: found, but with another value in some column."""
    out = np.zeros(expected.num_rows, np.bool_)
    for name in expected.column_names:
        a, b = got.column(name), expected.column(name)
        if a.combine_chunks().equals(b.combine_chunks().cast(a.type)):
            continue
        # Row by row only where columns differ: a failed check.
        out |= np.array([repr(x) != repr(y) for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)], np.bool_)
    return out & found


def _absent_keys(keys: pa.Table, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> pa.Table:
    """Keys of the right types that are likely not there: numbers far away, texts with something behind."""
    few = keys.take(pa.array(chosen))
    columns = []
    for i, column in enumerate(few.columns):
        mixed = column.take(pa.array(rng.permutation(len(column))))
        if i == few.num_columns - 1:
            mixed = _moved(mixed)
        columns.append(mixed)
    return pa.Table.from_arrays(columns, names=few.column_names)


def _moved(column: pa.ChunkedArray) -> pa.ChunkedArray:
    t = column.type
    values = column.to_pylist()
    if pa.types.is_integer(t):
        limit = 2 ** (t.bit_width - 1)
        return pa.chunked_array([pa.array([(v + limit // 2 + limit) % (2 * limit) - limit for v in values], t)])
    if pa.types.is_string(t):
        return pa.chunked_array([pa.array([f"{v}\x01absent" for v in values], t)])
    return column


def _is_present(asked: pa.Table, keys: pa.Table, table: TableHandle) -> npt.NDArray[np.bool_]:
    types = [table.schema.field(n).type for n in keys.column_names]
    there = encode_rows(keys.columns, types).to_arrow()
    mine = encode_rows(asked.columns, types).to_arrow()
    return np.asarray(pc.is_in(mine, value_set=there).to_numpy(zero_copy_only=False))
