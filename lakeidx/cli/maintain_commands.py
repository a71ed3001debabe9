"""``lakeidx compact|expire|orphans|partition|tag|branch|rollback|verify|lookup-store``: maintenance of a table."""

from __future__ import annotations

import time
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from lakeidx.api.table import Table
from lakeidx.cli.context import (
    EXIT_FINDINGS,
    DryRun,
    JsonOption,
    NoProgress,
    PartitionOption,
    TableArgument,
    WholeTableArgument,
    Work,
    Yes,
    asked,
    report_errors,
    stages,
    takes,
)
from lakeidx.cli.output import (
    ListFormatOption,
    for_programs,
    print_json,
    print_list,
    print_result,
    prints_list,
    prints_result,
)
from lakeidx.maintenance import warm_up as kernels
from lakeidx.results import Listing, Result
from lakeidx.tasks.limits import available_cores

_Partitions = Annotated[
    list[str] | None, typer.Option("--partition", metavar="NAME=VALUE,...", help="one of them; may be repeated")
]
_BranchName = Annotated[str, typer.Argument(metavar="NAME", help="name of the branch")]


@prints_result
@takes(Work)
def compact(
    work: Work,
    table: TableArgument,
    full: Annotated[bool, typer.Option("--full", help="merge every bucket into the top level")] = False,
    partition: PartitionOption = None,
    shrink_index: Annotated[
        bool | None, typer.Option("--shrink-index/--keep-index", help="drop hashes of deleted keys (with --full)")
    ] = None,
    manifests: Annotated[
        bool, typer.Option("--manifests", help="merge the manifests, too: statistics of files that are not live go")
    ] = False,
    dry_run: DryRun = False,
) -> Result:
    """Compact the buckets that need it, or all of them.

    Examples:
        lakeidx compact lake/shop.db/orders
        lakeidx compact lake/shop.db/orders --full --partition day=2026-11-22

    """
    with stages(work.no_progress) as on_stage:
        on_stage("compaction")
        return Table.open(table).compact(
            full=full,
            partitions=partition,
            shrink_index=shrink_index,
            manifests=manifests,
            dry_run=dry_run,
            runner=work.runner(on_stage, here=dry_run),
        )


@prints_result
def expire(
    table: TableArgument,
    retain_min: Annotated[
        int | None,
        typer.Option("--retain-min", min=1, help="keep at least this many snapshots; default: the table's option"),
    ] = None,
    retain_max: Annotated[
        int | None,
        typer.Option("--retain-max", min=1, help="keep at most this many snapshots; default: the table's option"),
    ] = None,
    retain_time: Annotated[
        str | None,
        typer.Option("--retain-time", help="keep snapshots younger than this, e.g. '7 d'; default: the table's option"),
    ] = None,
    dry_run: DryRun = False,
    staging: Annotated[bool, typer.Option("--staging/--no-staging", help="clean the staging of batches, too")] = True,
    staging_age: Annotated[
        str, typer.Option("--staging-age", help="how long rows of a finished batch, and rejected ones, stay staged")
    ] = "1 h",
) -> Result:
    """Expire snapshots, tags and consumers by the table's options or the flags given, and clean staging.

    Examples:
        lakeidx expire lake/shop.db/orders --dry-run
        lakeidx expire lake/shop.db/orders --retain-min 1 --retain-time '7 d'

    """
    return Table.open(table).expire(
        retain_min=retain_min,
        retain_max=retain_max,
        retain_time=retain_time,
        staging=staging,
        staging_age=staging_age,
        dry_run=dry_run,
    )


@report_errors
def orphans(
    table: TableArgument,
    older_than: Annotated[str, typer.Option("--older-than", help="minimum age, e.g. '1 d' or '12 h'")] = "1 d",
    yes: Annotated[bool, typer.Option("--yes", help="delete them; without it they are only listed")] = False,
    dry_run: DryRun = False,
    list_format: ListFormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """List files that nothing refers to; with --yes delete them.

    Examples:
        lakeidx orphans lake/shop.db/orders --older-than '3 d'
        lakeidx orphans lake/shop.db/orders --yes

    """
    found = Table.open(table).orphans(older_than=older_than, remove=yes and not dry_run)
    print_list(found.rows(), list_format, as_json)
    typer.echo(found.note(), err=True)


class FailOn(StrEnum):
    """Severities from which on a finding makes a verification fail."""

    ERROR = "error"
    WARNING = "warning"


@report_errors
@takes(Work)
def verify(
    work: Work,
    table: TableArgument,
    max_skew: Annotated[float, typer.Option("--max-skew", help="largest bucket over the mean of its partition")] = 4.0,
    max_stale_share: Annotated[
        float, typer.Option("--max-stale-share", min=0, max=1, help="share of index hashes whose key was deleted")
    ] = 0.1,
    sample_rows: Annotated[
        int, typer.Option("--sample-rows", min=1, help="keys looked up in lookup stores, values tried on file indexes")
    ] = 1000,
    lookup_store: Annotated[
        bool | None,
        typer.Option(
            "--lookup-store/--no-lookup-store",
            help="compare answers of the lookup store, too; default: when there is one",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", help="folder for finished work: an interrupted run resumes from it", metavar="FOLDER"
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="exit 1 for errors (wrong answers, now or soon), or for warnings, too")
    ] = FailOn.ERROR,
    as_json: JsonOption = False,
) -> None:
    """Run every check over the whole table, reading every page of every file; exit 1 when one finds an error.

    Examples:
        lakeidx verify lake/shop.db/orders
        lakeidx verify lake/shop.db/orders --fail-on warning --json

    """
    opened = Table.open(table)
    with stages(work.no_progress) as on_stage:
        on_stage("verification")
        verdict = opened.verify(
            max_skew=max_skew,
            max_stale_share=max_stale_share,
            sample_rows=sample_rows,
            lookup_store=lookup_store,
            runner=work.runner(on_stage, usual=available_cores()),
            checkpoint=checkpoint,
            progress=lambda done, total: on_stage(f"verification, {done} of {total} groups of partitions"),
        )
    print_result(verdict, as_json=as_json)
    if not verdict.passed:
        typer.echo(f"lakeidx: {verdict.note()}", err=True)
    if verdict.fails(fail_on):
        raise typer.Exit(EXIT_FINDINGS)


@prints_result
@takes(Work)
def lookup_store(work: Work, table: TableArgument, partition: PartitionOption = None) -> Result:
    """Build missing lookup files for the newest snapshot.

    Examples:
        lakeidx lookup-store lake/shop.db/orders

    """
    with stages(work.no_progress) as on_stage:
        on_stage("lookup store")
        return Table.open(table).build_lookup_store(partitions=partition, runner=work.runner(on_stage))


@prints_result
def tag_create(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="name of the tag")],
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="default: the newest")] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="the oldest snapshot at or after this ISO time")
    ] = None,
    retain: Annotated[
        str | None, typer.Option("--retain", help="delete the tag after, e.g. '30 d'; default never")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="let a tag of that name name this snapshot")] = False,
) -> Result:
    """Create a tag for a snapshot.

    Examples:
        lakeidx tag create lake/shop.db/orders yesterday --retain '30 d'

    """
    return Table.open(table).create_tag(name, snapshot=snapshot, timestamp=timestamp, retain=retain, replace=replace)


@prints_result
def tag_rename(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="name of the tag")],
    to: Annotated[str, typer.Argument(help="its new name")],
) -> Result:
    """Give a tag another name.

    Examples:
        lakeidx tag rename lake/shop.db/orders yesterday 2026-11-27

    """
    return Table.open(table).rename_tag(name, to)


@prints_result
def tag_delete(
    table: TableArgument,
    name: Annotated[str, typer.Argument(help="name of the tag")],
    dry_run: DryRun = False,
) -> Result:
    """Delete a tag, and the files that only it needs.

    Examples:
        lakeidx tag delete lake/shop.db/orders yesterday

    """
    return Table.open(table).delete_tag(name, dry_run=dry_run)


@prints_list
def tag_list(table: TableArgument) -> Listing:
    """List the tags.

    Examples:
        lakeidx tag list lake/shop.db/orders

    """
    return Table.open(table).tags()


@prints_list
def consumer_list(table: TableArgument) -> Listing:
    """List the consumers with the oldest snapshot that expiry keeps for each, and the leases of running streams.

    Examples:
        lakeidx consumer list lake/shop.db/orders

    """
    return Table.open(table).consumers()


@prints_result
def consumer_delete(
    table: TableArgument,
    id: Annotated[str, typer.Argument(metavar="ID")],
    dry_run: DryRun = False,
) -> Result:
    """Delete a consumer: expiry no longer waits for it, and a stream with its id starts without a position.

    Examples:
        lakeidx consumer delete lake/shop.db/orders copy

    """
    return Table.open(table).delete_consumer(id, dry_run=dry_run)


@prints_result
def rollback(
    table: TableArgument,
    to: Annotated[str | None, typer.Argument(metavar="[SNAPSHOT|TAG]", help="a snapshot's number or a tag")] = None,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="roll back to this snapshot")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="roll back to this tag")] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="roll back to the newest snapshot at or before this ISO time")
    ] = None,
    watermark: Annotated[
        int | None,
        typer.Option("--watermark", help="roll back to the newest snapshot with a watermark (epoch ms) up to this"),
    ] = None,
    keep_history: Annotated[
        bool,
        typer.Option("--keep-history", help="commit the older state as a new snapshot; nothing that came later goes"),
    ] = False,
    dry_run: DryRun = False,
) -> Result:
    """Roll the table back to an older snapshot or tag; stop all writers first.

    Examples:
        lakeidx rollback lake/shop.db/orders 3 --dry-run
        lakeidx rollback lake/shop.db/orders yesterday
        lakeidx rollback lake/shop.db/orders 3 --keep-history

    """
    return Table.open(table).rollback(
        to,
        snapshot=snapshot,
        tag=tag,
        timestamp=timestamp,
        watermark=watermark,
        keep_history=keep_history,
        dry_run=dry_run,
    )


@prints_result
def branch_create(
    table: WholeTableArgument,
    name: _BranchName,
    tag: Annotated[str | None, typer.Option("--tag", help="begin at this tag")] = None,
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="begin at this snapshot, which is tagged")] = None,
) -> Result:
    """Create a branch at a tag or a snapshot; without either an empty one.

    Every command that is about a table takes --branch NAME, or TABLE$branch_NAME.

    Examples:
        lakeidx branch create lake/shop.db/orders trial --snapshot 3
        lakeidx branch create lake/shop.db/orders fix --tag yesterday

    """
    return Table.open(table).create_branch(name, tag=tag, snapshot=snapshot)


@prints_list
def branch_list(table: WholeTableArgument) -> Listing:
    """List the branches with their newest snapshot.

    Examples:
        lakeidx branch list lake/shop.db/orders

    """
    return Table.open(table).branches()


@prints_result
def branch_delete(table: WholeTableArgument, name: _BranchName, yes: Yes = False, dry_run: DryRun = False) -> Result:
    """Delete a branch: its snapshots, tags, consumers and staged batches.

    Data files that only it had are found by `lakeidx orphans` then.

    Examples:
        lakeidx branch delete lake/shop.db/orders trial --dry-run

    """
    deletion = partial(Table.open(table).delete_branch, name)
    return asked("delete the branch", deletion, yes=yes, dry_run=dry_run)


@prints_result
def branch_fast_forward(table: WholeTableArgument, name: _BranchName, dry_run: DryRun = False) -> Result:
    """Bring what was committed to a branch into the table; stop the table's writers first.

    Refused while the table has commits that the branch lacks; the error names the rollback that would take them away.

    Examples:
        lakeidx branch fast-forward lake/shop.db/orders trial --dry-run

    """
    return Table.open(table).fast_forward(name, dry_run=dry_run)


@prints_list
def partition_list(table: TableArgument) -> Listing:
    """List the partitions: rows, bytes, files, buckets, when last written.

    Examples:
        lakeidx partition list lake/shop.db/orders

    """
    return Table.open(table).partitions()


@prints_result
def partition_drop(
    table: TableArgument,
    partition: _Partitions = None,
    where: Annotated[str | None, typer.Option("--where", help="SQL condition over the partition columns")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> Result:
    """Drop partitions, in one commit; older snapshots and tags keep their rows.

    Examples:
        lakeidx partition drop lake/shop.db/orders --where "day < '2025-01-01'" --dry-run
        lakeidx partition drop lake/shop.db/orders --partition day=2024-12-31 --yes

    """
    deletion = partial(Table.open(table).drop_partitions, partition, where=where)
    return asked("drop the partitions", deletion, yes=yes, dry_run=dry_run)


@prints_result
def partition_expire(
    table: TableArgument,
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="age, e.g. '90 d'; default: option partition.expiration-time")
    ] = None,
    dry_run: DryRun = False,
) -> Result:
    """Drop partitions by their age: the time in their values, or of their last write (partition.expiration-strategy).

    Examples:
        lakeidx partition expire lake/shop.db/orders --dry-run
        lakeidx partition expire lake/shop.db/orders --older-than '90 d'

    """
    return Table.open(table).expire_partitions(older_than=older_than, dry_run=dry_run)


@prints_result
def partition_mark_done(table: TableArgument, partition: _Partitions = None, dry_run: DryRun = False) -> Result:
    """Mark partitions done by option partition.mark-done-action: those named, or those that are idle.

    Examples:
        lakeidx partition mark-done lake/shop.db/orders --partition day=2026-11-27
        lakeidx partition mark-done lake/shop.db/orders --dry-run

    """
    return Table.open(table).mark_done(partition, dry_run=dry_run)


@report_errors
def warm_up(no_progress: NoProgress = False, as_json: JsonOption = False) -> None:
    """Compile all kernels now; later runs load them from disk.

    Examples:
        lakeidx warm-up

    """
    started = time.monotonic()
    with stages(no_progress) as on_module:
        count = kernels.warm_up(on_module)
    seconds = round(time.monotonic() - started, 1)
    if for_programs(as_json):
        print_json({"kernels": count, "seconds": seconds})
    else:
        typer.echo(f"{count} kernels are compiled, after {seconds} s")
