"""Advice on a table that does not exist yet, from the landing files it would be made of."""

from __future__ import annotations

from collections.abc import Sequence

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.advice.advice import Advice
from lakeidx.key_index.advice.measures import Needs
from lakeidx.key_index.advice.model import Machine
from lakeidx.landing.key_rows import column_names, landing_types, read_key_rows
from lakeidx.maintenance.advise import SAMPLE, SourceRows, Workload, advise_files
from lakeidx.storage.landing_folders import open_landing
from lakeidx.types import Field


def advise_new_table(
    files: Sequence[str],
    *,
    key: Sequence[str],
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    batch_rows: int | None = None,
    sample: int = SAMPLE,
    needs: Needs | None = None,
    machine: Machine | None = None,
) -> Advice:
    """Recommend an index type for a table that would be made of landing files (`Table.advise_files`).

    key, partition_by   columns of the key, and of the partitions
    keys                files that stand for a batch; without one the last of `files` does
    batch_rows          rows of a whole batch, where those are a sample
    errors              InvalidInputError when there are too few files, no key, or a column that is not there
    """
    if not files:
        raise InvalidInputError("give the landing files that the table would be made of")
    if not key:
        names = column_names(open_landing(files[0]), files[0])
        raise InvalidInputError(f"name the key columns with key (--key); {files[0]} has {', '.join(names)}")
    held, batches = list(files), list(keys)
    if not batches:
        if len(held) < 2:
            raise InvalidInputError(
                "give at least two files, the last of which stands for a batch, or a batch with keys (--keys)"
            )
        batches = [held.pop()]
    wanted = list(dict.fromkeys([*partition_by, *key]))
    types = landing_types([*held, *batches], wanted)
    fields = [Field(i, n, types[n]) for i, n in enumerate(wanted)]
    rows = [read_key_rows(p, fields) for p in batches]
    if not any(batch.num_rows for batch in rows):
        raise InvalidInputError(f"there are no rows in {', '.join(batches)}")
    return advise_files(
        [SourceRows(p, read_key_rows(p, fields), open_landing(p).size(p)) for p in held],
        Workload(batches=rows, batch_rows=batch_rows, sample=sample),
        keys=key,
        key_types=[types[n] for n in key],
        partition_by=partition_by,
        partition_types=[types[n] for n in partition_by],
        needs=needs,
        machine=machine,
    )
