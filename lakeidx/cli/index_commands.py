"""``lakeidx index TABLE`` lists index files; ``index rebuild TABLE`` changes the file indexes of data files, or makes the hash
index anew; ``index resize TABLE`` splits and merges the buckets of rings.
"""

from __future__ import annotations

from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import DryRun, PartitionOption, TableArgument, Work, stages, takes
from lakeidx.cli.output import prints_result
from lakeidx.results import Result


@prints_result
@takes(Work)
def rebuild(
    work: Work,
    table: TableArgument,
    index_type: Annotated[
        str | None,
        typer.Option("--type", help="hash, bloom-filter, bitmap, bsi or range-bitmap; default: those the options name"),
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", help="comma list; col[key] for an entry of a map")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="drop this type (of these columns, or of all)")] = False,
    partition: PartitionOption = None,
    dry_run: DryRun = False,
) -> Result:
    """Add, replace or drop file indexes of existing data files, which are not rewritten.

    Without --type the files get exactly the indexes that the table's options request. --type hash makes the hash index of a table
    with dynamic buckets anew from the keys in its data files, in one commit, when index files are missing or damaged.

    Examples:
        lakeidx index rebuild lake/shop.db/orders
        lakeidx index rebuild lake/shop.db/orders --type bloom-filter --columns name

    """
    with stages(work.no_progress) as on_stage:
        on_stage("index rebuild")
        return Table.open(table).rebuild_index(
            index_type=index_type,
            columns=[c.strip() for c in (columns or "").split(",") if c.strip()],
            drop=drop,
            partitions=partition,
            dry_run=dry_run,
            runner=work.runner(on_stage, here=dry_run),
        )


@prints_result
@takes(Work)
def resize(
    work: Work,
    table: TableArgument,
    target_size: Annotated[
        str | None,
        typer.Option(
            "--target-size", help="target size of a bucket, e.g. '1 gb'; default: the table's target-file-size"
        ),
    ] = None,
    partition: PartitionOption = None,
    dry_run: DryRun = False,
) -> Result:
    """Split buckets that have grown and merge small ones (index.type = bucket with engine CONSISTENT_HASHING).

    Examples:
        lakeidx index resize lake/shop.db/orders --target-size '1 gb'

    """
    with stages(work.no_progress) as on_stage:
        on_stage("ring resize")
        return Table.open(table).resize_rings(
            target_size=target_size,
            partitions=partition,
            dry_run=dry_run,
            runner=work.runner(on_stage, here=dry_run),
        )
