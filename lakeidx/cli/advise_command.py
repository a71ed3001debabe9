"""``lakeidx advise``: which index a table should have, and what each would cost per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import JsonOption, report_errors
from lakeidx.cli.output import ListFormat, chosen_format, print_json, print_list
from lakeidx.errors import InvalidInputError
from lakeidx.key_index.advice.advice import Advice
from lakeidx.key_index.advice.measures import Needs
from lakeidx.key_index.advice.model import Machine
from lakeidx.landing.key_rows import read_key_rows
from lakeidx.landing.read import ENDINGS, is_landing_file
from lakeidx.maintenance.advise import columns_of_key


class AdviceFormat(StrEnum):
    """Formats of advice."""

    TABLE = "table"
    JSON = "json"


_Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--keys",
        help=f"a batch: {ENDINGS}, with the key columns; may be repeated. Default: the table's last, or the last file",
    ),
]


@report_errors
def advise(
    what: Annotated[
        list[str],
        typer.Argument(metavar="TABLE|FILE...", help="a table's directory, or landing files for a new table"),
    ],
    keys: _Keys = None,
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
    """Recommend an index type and its sizes; predict files touched, bytes, memory and seconds per batch for every type.

    Examples:
        lakeidx advise lake/shop.db/orders
        lakeidx advise monday.csv tuesday.csv --key id

    """
    kind = chosen_format(advice_format, None, AdviceFormat, AdviceFormat.TABLE, as_json=as_json)
    how: dict[str, Any] = {
        "batch_rows": batch_rows,
        "sample": sample,
        "needs": Needs(moves=moves, other_writers=other_writers, stateless=stateless, hbase=hbase),
        "machine": Machine(cores=cores, latency_ms=latency_ms),
    }
    if all(is_landing_file(w) for w in what):
        advice = Table.advise_files(what, key=_names(key), keys=keys or [], partition_by=_names(partition_by), **how)
    else:
        if len(what) != 1:
            raise InvalidInputError(f"give one table, or landing files ({ENDINGS})")
        if key or partition_by:
            raise InvalidInputError("--key and --partition-by are for files; a table has its own keys")
        advice = _of_table(Table.open(what[0]), keys or [], how)
    if kind is AdviceFormat.JSON:
        print_json(advice.as_dict())
    else:
        print(advice.measured())
        print_list(advice.candidates(), ListFormat.TABLE)
        print(advice.note())


def _of_table(table: Table, keys: Sequence[str], how: Mapping[str, Any]) -> Advice:
    fields = [table.schema.field(n) for n in columns_of_key(table.schema)]
    return table.advise([read_key_rows(path, fields) for path in keys] or None, **how)


def _names(text: str | None) -> list[str]:
    return [n.strip() for n in (text or "").split(",") if n.strip()]
