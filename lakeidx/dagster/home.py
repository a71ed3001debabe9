"""A local DAGSTER_HOME: storage of runs and events, with pools that run batches of a table one after another."""

from __future__ import annotations

from pathlib import Path

_DAGSTER_YAML = """\
# A local Dagster instance of lakeidx: everything in files below this folder. For servers see deploy/dagster.yaml.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  # One slot for the batches of a table, one for its upkeep: steps of each take turns, and neither waits for the other.
  pools:
    default_limit: 1
    granularity: op
  runs:
    max_concurrent_runs: 2
run_retries:
  # A new run after a process was killed; steps retry by themselves.
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
run_monitoring:
  enabled: true
  poll_interval_seconds: 30
  # A killed run keeps its slot of the table's pool until then, and the run that takes its place waits for it.
  free_slots_after_run_end_seconds: 30
"""


def prepare_home(work: Path) -> Path:
    """Make the Dagster home below a work folder when it is not there; an existing dagster.yaml stays as it is."""
    home = work.resolve() / "dagster_home"
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists() or not settings.stat().st_size:
        settings.write_text(_DAGSTER_YAML, encoding="utf-8")
    return home
