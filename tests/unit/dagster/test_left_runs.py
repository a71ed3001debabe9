"""Runs that went with their code server are failed or canceled; those of other servers are left alone."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from lakeidx.dagster.left_runs import apply_left_runs, plan_left_runs

pytestmark = pytest.mark.dagster


@dg.job
def some_job() -> None:
    """Do nothing."""


def started(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, **place: object) -> dg.DagsterRun:
    tags = {".dagster/grpc_info": json.dumps(place)} if place else {}
    return instance.create_run_for_job(some_job, tags=tags, status=status)


def test_runs_of_the_server_that_was_started_again() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        run = started(instance, dg.DagsterRunStatus.STARTED, host="code", port=4000)
        canceled = started(instance, dg.DagsterRunStatus.CANCELING, host="code", port=4000, use_ssl=False)
        others = [
            started(instance, dg.DagsterRunStatus.STARTED, host="other", port=4000),
            started(instance, dg.DagsterRunStatus.STARTED, host="code", port=4001),
            started(instance, dg.DagsterRunStatus.STARTED, socket="/tmp/s"),
            started(instance, dg.DagsterRunStatus.STARTED),
        ]
        left = plan_left_runs([*others, run, canceled], "code", 4000)
        assert [r.run_id for r in left] == [run.run_id, canceled.run_id]
        apply_left_runs(instance, [r.run_id for r in left])
        found = {r.run_id: r.status for r in instance.get_runs()}
        assert found.pop(run.run_id) is dg.DagsterRunStatus.FAILURE
        assert found.pop(canceled.run_id) is dg.DagsterRunStatus.CANCELED
        assert set(found.values()) == {dg.DagsterRunStatus.STARTED}
