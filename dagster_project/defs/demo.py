"""Jobs for a visitor, with ``make ui-demo`` (LAKEIDX_DEMO): each lands files of the table nycflights/weather."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import dagster as dg

from dagster_project.flights.demo import land_next_month, land_the_rest, repair
from lakeidx.dagster.failures import failures_explained

_JOBS: dict[str, tuple[str, Callable[[Path], Sequence[Path]]]] = {
    "demo_1_new_month": (
        "Lands the next month of weather. Then open the job nycflights__weather__batch and materialize its partition.",
        lambda landing: [land_next_month(landing)],
    ),
    "demo_2_bad_file": (
        "Lands the next month with pressure in inches and three impossible humidities. Materialize its partition: three rows are "
        "set aside, a check on pressure turns red, and nothing reaches the table.",
        lambda landing: [land_next_month(landing, broken=True)],
    ),
    "demo_3_repair": (
        "Lands the broken month as it should be. Materialize its partition again: all checks are green.",
        repair,
    ),
    "demo_4_rest_of_the_year": (
        "Lands all months that are left. Backfill them: choose all their partitions, which are one run and one snapshot.",
        land_the_rest,
    ),
}


@dg.definitions
def demo() -> dg.Definitions:
    """Build the jobs; none where no demo was asked for."""
    if os.environ.get("LAKEIDX_DEMO") != "1":
        return dg.Definitions()
    return dg.Definitions(jobs=[_job(name, text, land) for name, (text, land) in _JOBS.items()])


def _job(name: str, text: str, land: Callable[[Path], Sequence[Path]]) -> dg.JobDefinition:
    @dg.op(name=f"{name}_op", description=text, out=dg.Out(dg.Nothing))
    def land_files(context: dg.OpExecutionContext) -> None:
        with failures_explained():
            files = land(Path(os.environ["LAKEIDX_LANDING"]) / "weather")
        months = ", ".join(f.stem.removeprefix("weather-") for f in files)
        context.log.info(f"landed {months or 'nothing: there was nothing to do'}")

    @dg.job(name=name, description=text, executor_def=dg.in_process_executor)
    def job() -> None:
        land_files()

    return job
