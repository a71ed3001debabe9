"""The failed-run sensor: says on every failed run what kind of error it was and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_project.failures import ERROR_KIND, REACTIONS, WHAT_TO_DO, Reaction

ALERT = "lakeidx/alert"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is said of a failed run."""

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


def build_failed_run_sensor(**options: Any) -> dg.SensorDefinition:
    """Build the sensor for all runs of the code location; runs to look at carry the tag ``lakeidx/alert``."""

    @dg.run_failure_sensor(
        name="lakeidx__failed_run_sensor",
        description="Tags a failed run with the kind of error and what to do about it.",
        **options,
    )
    def failed_run_sensor(context: dg.RunFailureSensorContext) -> None:
        diagnosis = diagnose(_kinds_of_steps(context))
        context.instance.add_run_tags(context.dagster_run.run_id, diagnosis.tags)
        steps = ", ".join(diagnosis.steps) or "no step reported a reason"
        text = f"run {context.dagster_run.run_id} failed ({diagnosis.kind}, {steps}): {diagnosis.reaction.advice}"
        (context.log.error if diagnosis.reaction.alert else context.log.warning)(text)

    return failed_run_sensor
