"""``lakeidx advise``: which index a table should have, and what each would cost per batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import pyarrow as pa
import typer

from lakeidx.cli.context import JsonOption, open_table, report_errors
from lakeidx.cli.key_input import column_names, landing_types, read_key_rows
from lakeidx.cli.output import ListFormat, chosen_format, print_json, print_list
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.advice.advise import Advice
from lakeidx.key_index.advice.measures import Needs
from lakeidx.key_index.advice.model import Machine, Prediction
from lakeidx.key_index.advice.sizing import FPP, NUM_BUCKETS, NUM_ENTRIES, TARGET_ROWS, sizing
from lakeidx.landing.read import ENDINGS, is_landing_file
from lakeidx.maintenance.advise import SAMPLE, SourceRows, Workload, advise_files, key_columns
from lakeidx.storage import open_store
from lakeidx.types import Field


class AdviceFormat(StrEnum):
    """How advice is printed."""

    TABLE = "table"
    JSON = "json"


@report_errors
def advise(
    what: Annotated[
        list[str],
        typer.Argument(metavar="TABLE|FILE...", help="a table's directory, or landing files for a new table"),
    ],
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            help=f"a batch: {ENDINGS}, with the key columns; may be repeated. Default: the table's last batch, "
            "or the last of the files",
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="with files: key columns, comma list")] = None,
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", help="with files: partition columns, comma list")
    ] = None,
    batch_rows: Annotated[
        int | None,
        typer.Option("--batch-rows", min=1, help="number of rows in a whole batch, if the given rows are a sample"),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="sample at most this many keys")] = 20_000,
    moves: Annotated[bool, typer.Option("--moves", help="keys may move between partitions")] = False,
    other_writers: Annotated[
        bool, typer.Option("--other-writers", help="Java Paimon or other programs write the table, too")
    ] = False,
    stateless: Annotated[bool, typer.Option("--stateless", help="store nothing outside the table")] = False,
    hbase: Annotated[bool, typer.Option("--hbase", help="an HBase with a Thrift server is available")] = False,
    cores: Annotated[int, typer.Option("--cores", min=1, help="cores that locate the keys of a batch")] = 2,
    latency_ms: Annotated[
        float,
        typer.Option(
            "--latency-ms", min=0, help="latency of the store in milliseconds: about 0.1 for a disk, 30 for S3"
        ),
    ] = 0.1,
    advice_format: Annotated[AdviceFormat | None, typer.Option("--format", help="output format; default table")] = None,
    as_json: JsonOption = False,
) -> None:
    """Recommend an index type and its sizes; predict files touched, bytes, memory and seconds per batch for every type."""
    needs = Needs(moves=moves, other_writers=other_writers, stateless=stateless, hbase=hbase)
    kind = chosen_format(advice_format, None, AdviceFormat, AdviceFormat.TABLE, as_json=as_json)
    machine = Machine(cores=cores, latency_ms=latency_ms)
    if _are_files(what):
        advice = advise_new_table(
            what, keys or [], _names(key), _names(partition_by), batch_rows, sample, needs, machine
        )
    else:
        if len(what) != 1:
            raise InvalidInputError(f"give one table, or landing files ({ENDINGS})")
        if key or partition_by:
            raise InvalidInputError("--key and --partition-by are for files; a table has its own keys")
        advice = _of_table(what[0], keys or [], batch_rows, sample, needs, machine)
    if kind is AdviceFormat.JSON:
        print_json(json_values(advice))
    else:
        show(advice)


def _are_files(what: Sequence[str]) -> bool:
    return all(is_landing_file(w) for w in what)


def _names(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(",") if n.strip()]


def _of_table(
    uri: str, keys: Sequence[str], batch_rows: int | None, sample: int, needs: Needs, machine: Machine
) -> Advice:
    opened = open_table(uri)
    fields = [opened.schema.field(n) for n in key_columns(opened.schema)]
    batches = [read_key_rows(path, fields) for path in keys] or None
    if batches is None and batch_rows is not None:
        raise InvalidInputError("--batch-rows needs --keys")
    return opened.advise(batches, batch_rows=batch_rows, sample=sample, needs=needs, machine=machine)


def advise_new_table(
    paths: Sequence[str],
    batches: Sequence[str],
    key: Sequence[str],
    partition_by: Sequence[str] = (),
    batch_rows: int | None = None,
    sample: int = SAMPLE,
    needs: Needs | None = None,
    machine: Machine | None = None,
) -> Advice:
    """Advise on a table that would be made of landing files.

    batches   files that stand for a batch; none: the last of `paths` does
    errors    InvalidInputError when there are too few files, or no key
    """
    if not key:
        names = column_names(open_store(paths[0]), paths[0])
        raise InvalidInputError(f"name the key columns with --key; {paths[0]} has {', '.join(names)}")
    held, given = list(paths), list(batches)
    if not given:
        if len(held) < 2:
            raise InvalidInputError(
                "give at least two files, the last of which stands for a batch, or a batch with --keys"
            )
        given = [held.pop()]
    wanted = list(dict.fromkeys([*partition_by, *key]))
    types = landing_types([*held, *given], wanted)
    fields = [Field(i, n, types[n]) for i, n in enumerate(wanted)]
    sources = [SourceRows(p, read_key_rows(p, fields), open_store(p).size(p)) for p in held]
    return advise_files(
        sources,
        Workload(batches=_some([read_key_rows(p, fields) for p in given], given), batch_rows=batch_rows, sample=sample),
        keys=key,
        key_types=[types[n] for n in key],
        partition_by=partition_by,
        partition_types=[types[n] for n in partition_by],
        needs=needs,
        machine=machine,
    )


def _some(batches: list[pa.Table], paths: Sequence[str]) -> list[pa.Table]:
    if not any(b.num_rows for b in batches):
        raise InvalidInputError(f"there are no rows in {', '.join(paths)}")
    return batches


def filter_bytes(entries: int, fpp: float) -> int:
    """Return the bytes of one bloom filter of a file, as text in its footer."""
    bits = math.ceil(entries * -math.log(fpp) / math.log(2) ** 2)
    return -(-(13 + -(-bits // 8)) // 3) * 4


def _sizes_of(advice: Advice) -> dict[str, Any]:
    """Compute the sizes that follow from the measures, for whatever type is chosen."""
    sizes = sizing(advice.measures)
    entries, fpp = int(sizes[NUM_ENTRIES]), float(sizes[FPP])
    return {
        "target_row_num": int(sizes[TARGET_ROWS]),
        "buckets": int(sizes[NUM_BUCKETS]),
        "bloom_entries": entries,
        "bloom_fpp": fpp,
        "bloom_bytes": filter_bytes(entries, fpp),
    }


def json_values(advice: Advice) -> dict[str, Any]:
    """Return the recommendation, sizes, measures and candidates as one document."""
    m = advice.measures
    measures = {name: getattr(m, name) for name in m.__slots__}
    return {
        "index.type": advice.index_type,
        "options": dict(advice.options),
        "sizes": _sizes_of(advice),
        "measures": {**measures, "key_order": m.key_order},
        "candidates": [
            {
                "type": p.index_type,
                "files": round(p.files, 1),
                "bytes": round(p.bytes),
                "memory": round(p.memory),
                "seconds": float(f"{p.seconds:.3g}"),
                "why_not": p.why_not,
            }
            for p in advice.predictions
        ],
    }


def show(advice: Advice) -> None:
    """Print the candidates as a table, then the recommendation in words."""
    m = advice.measures
    print(
        f"{m.rows:,} rows in {m.files:,} files of {m.partitions:,} partitions; batches of {m.batch_rows:,} rows: keys"
        f" {m.key_order} (each may be in {m.spread:.0%} of its partition's files), {m.update_share:.0%} updates,"
        f" {m.move_share:.0%} of them from another partition"
    )
    print_list([_row(p, advice) for p in advice.predictions], ListFormat.TABLE)
    sizes = _sizes_of(advice)
    print(f"recommended: {', '.join(f'{k} = {v}' for k, v in advice.options.items())}")
    print(
        f"sizes: buckets of {sizes['target_row_num']:,} rows (hash, bloom, simple, state), {sizes['buckets']:,} buckets a"
        f" partition (bucket), filters of {sizes['bloom_entries']:,} keys at {sizes['bloom_fpp']:g} ="
        f" {sizes['bloom_bytes']:,} bytes a file (bloom)"
    )


def _row(p: Prediction, advice: Advice) -> dict[str, Any]:
    mark = "recommended" if p.index_type == advice.index_type else p.why_not
    return {
        "type": p.index_type,
        "files": f"{p.files:,.0f}",
        "read": _amount(p.bytes),
        "memory": _amount(p.memory),
        "seconds": f"{p.seconds:.3g}",
        "": mark,
    }


def _amount(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
