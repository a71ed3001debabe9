"""The failed-run sensor: tags every failed run with the kind of error and what to do about it, and sends alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakeidx.dagster.failures import ERROR_KIND, REACTIONS, WHAT_TO_DO, Reaction
from lakeidx.dagster.sensors.alerts import Alert, Receiver, receivers_from, send_alert

ALERT = "lakeidx/alert"
# Dagster's own mark on a run that failed and is about to be run again.
_WILL_RETRY = "dagster/will_retry"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Diagnosis of a failed run."""

    kind: str
    steps: tuple[str, ...]
    reaction: Reaction

    @property
    def tags(self) -> dict[str, str]:
        """Tags for the run, to filter by in the UI."""
        return {
            ERROR_KIND: self.kind,
            ALERT: "yes" if self.reaction.alert else "no",
            WHAT_TO_DO: self.reaction.advice,
        }


def diagnose(failed_steps: Mapping[str, str | None]) -> Diagnosis:
    """Diagnose a run.

    failed_steps   step -> error kind, None where the step did not say; none failed when the process died
    """
    if not failed_steps:
        return Diagnosis("killed", (), REACTIONS["killed"])
    kinds = [kind for kind in failed_steps.values() if kind in REACTIONS]
    # The worst first: what no one may retry, then what someone must look at.
    kinds.sort(key=lambda k: (REACTIONS[k].retry, not REACTIONS[k].alert))
    kind = kinds[0] if kinds else "unknown"
    return Diagnosis(str(kind), tuple(failed_steps), REACTIONS[str(kind)])


def _kinds_of_steps(context: dg.RunFailureSensorContext) -> dict[str, str | None]:
    """Return the error kind of every failed step of a run."""
    out: dict[str, str | None] = {}
    for event in context.get_step_failure_events():
        data = event.step_failure_data.user_failure_data
        value = data.metadata.get(ERROR_KIND) if data is not None else None
        out[str(event.step_key)] = str(value.value) if value is not None else None
    return out


def _alert_of(context: dg.RunFailureSensorContext, diagnosis: Diagnosis) -> Alert | None:
    """Return the alert for a failed run; None when Dagster retries it and nobody has to act."""
    run = context.dagster_run
    if run.tags.get(_WILL_RETRY) == "true" and not diagnosis.reaction.alert:
        return None
    said = [event.step_failure_data.user_failure_data for event in context.get_step_failure_events()]
    return Alert(
        run_id=run.run_id,
        job=run.job_name,
        table=run.tags.get("lakeidx/table", ""),
        steps=diagnosis.steps,
        kind=diagnosis.kind,
        urgent=diagnosis.reaction.alert,
        advice=diagnosis.reaction.advice,
        errors=tuple(str(data.description) for data in said if data is not None and data.description),
    )


def build_failed_run_sensor(alerts: Sequence[Receiver] | None = None, **options: Any) -> dg.SensorDefinition:
    """Build the sensor for all runs of the code location; runs to look at carry the tag ``lakeidx/alert``.

    alerts   functions that are called with an `Alert`; None = those that the environment names (LAKEIDX_ALERT_*)
    """

    @dg.run_failure_sensor(
        name="lakeidx__failed_run_sensor",
        description="Tags a failed run with the kind of error and what to do about it, and sends alerts.",
        **options,
    )
    def failed_run_sensor(context: dg.RunFailureSensorContext) -> None:
        diagnosis = diagnose(_kinds_of_steps(context))
        context.instance.add_run_tags(context.dagster_run.run_id, diagnosis.tags)
        steps = ", ".join(diagnosis.steps) or "no step reported a reason"
        text = f"run {context.dagster_run.run_id} failed ({diagnosis.kind}, {steps}): {diagnosis.reaction.advice}"
        (context.log.error if diagnosis.reaction.alert else context.log.warning)(text)
        alert = _alert_of(context, diagnosis)
        if alert is not None:
            send_alert(alert, receivers_from() if alerts is None else iter(alerts))

    return failed_run_sensor
