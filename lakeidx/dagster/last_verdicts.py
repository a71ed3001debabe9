"""Verdicts of checks that a run has planned and not judged: each gets the one again that it had before.

Dagster plans all checks of the assets of a run, and its daemon starts no backfill whose plan lacks one. It calls one that stays
planned failed where its run failed, and skipped where it was canceled or had nothing to judge, whatever the asset is like. So a run
that does not reach an asset says of its checks what was known. The run does so itself, at its end or in the step that fails; for
runs that were killed, canceled in the queue or stopped by another asset of the project sensors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import dagster as dg

#: Name of the step that ends a run with the checks that no other step has judged, after the table's id.
CHECKS_STEP = "checks"
#: Metadata of a verdict that is reported again: the run that judged.
_JUDGED_BY = "lakeidx/judged_by"
_PLANNED, _EVALUATED = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED, dg.DagsterEventType.ASSET_CHECK_EVALUATION


def last_verdicts(
    instance: dg.DagsterInstance, run_id: str, keys: Iterable[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the last verdicts of those checks that a run has planned and not judged."""
    storage = instance.event_log_storage
    newest = storage.get_latest_asset_check_execution_by_key(list(keys))
    left = [k for k, found in newest.items() if found.run_id == run_id and found.status.value == "PLANNED"]
    for key, found in storage.get_asset_check_summary_records(left).items():
        record = found.last_completed_check_execution_record
        said = record.evaluation if record else None
        if said is None or record is None:
            text = f"Not judged: no run has reached {key.asset_key.to_user_string()} yet."
            yield dg.AssetCheckEvaluation(key.asset_key, key.name, True, description=text, blocking=False)
            continue
        judged_by = dg.MetadataValue.dagster_run(record.run_id) if record.run_id else "outside of a run"
        yield _again(said, judged_by)


def repeat_overtaken(instance: dg.DagsterInstance, run_id: str, verdicts: Sequence[dg.AssetCheckEvaluation]) -> None:
    """Report verdicts of a run again, outside of it, where another run has reported its own since this one was planned.

    Dagster takes a verdict for as old as its plan: it would show the other one, and as it is about an older state, none.
    """
    keys = {dg.AssetCheckKey(v.asset_key, v.check_name): v for v in verdicts}
    for key, found in instance.event_log_storage.get_latest_asset_check_execution_by_key(list(keys)).items():
        # One that is planned is of a run that has yet to come, and reports.
        if found.run_id != run_id and found.status.value != "PLANNED":
            instance.report_runless_asset_event(_again(keys[key], dg.MetadataValue.dagster_run(run_id)))


def _again(said: dg.AssetCheckEvaluation, judged_by: dg.MetadataValue[Any] | str) -> dg.AssetCheckEvaluation:
    """Return a verdict as it is reported again: what it says was no reason to stop then, or has stopped its own run."""
    return dg.AssetCheckEvaluation(
        said.asset_key,
        said.check_name,
        said.passed,
        metadata={_JUDGED_BY: judged_by, **said.metadata},
        target_materialization_data=said.target_materialization_data,
        severity=said.severity,
        description=said.description,
        blocking=False,
    )


def leave_verdicts(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Report in a run that ends early the last verdicts of the checks that it has not reached.

    Those of an asset that the run has made and then could not judge are left to what Dagster says: they failed to execute.
    """
    planned = instance.all_logs(run.run_id, of_type=_PLANNED)
    keys = [_key(e.dagster_event) for e in planned if e.dagster_event is not None and _ours(e.dagster_event)]
    for verdict in last_verdicts(instance, run.run_id, keys):
        made = instance.fetch_materializations(verdict.asset_key, limit=1).records
        if not made or made[0].run_id != run.run_id:
            event = dg.DagsterEvent(_EVALUATED.value, job_name=run.job_name, event_specific_data=verdict)
            instance.report_dagster_event(event, run.run_id)


def _key(event: dg.DagsterEvent) -> dg.AssetCheckKey:
    key: dg.AssetCheckKey = event.asset_check_planned_data.asset_check_key
    return key


def _ours(event: dg.DagsterEvent) -> bool:
    """Return whether a planned check is one that this package reports, by its step: that of the table its asset is of."""
    table, _, step = str(event.step_key).rpartition("__")
    return step == CHECKS_STEP and "__".join(_key(event).asset_key.path).startswith(table)
