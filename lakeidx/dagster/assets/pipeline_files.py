"""An asset for pipeline files that could not be loaded, with a check that fails and shows the reasons.

A file that is left out makes no asset, so nothing of the table would show. The check's result is put there by a sensor that is
on from the start, once for each change; running the check by hand does the same.
"""

import hashlib
import os
from collections.abc import Mapping

import dagster as dg

from lakeidx.dagster.assets.kept_checks import kept_checks
from lakeidx.dagster.metadata.reports import records_table
from lakeidx.errors import InvalidInputError

ASSET = dg.AssetKey(["lakeidx", "pipeline_files"])
CHECK = "every_pipeline_file_loads"
GROUP = "lakeidx"
INTERVAL_SECONDS = 60
_REFUSE = "LAKEIDX_REFUSE_LEFT_OUT"


def build_pipeline_files(
    what: str, loaded: int, left_out: Mapping[str, tuple[str, ...]], *, key: dg.AssetKey = ASSET
) -> dg.Definitions:
    """Build the asset, check and sensor.

    what       first line of the asset's description; the problems follow
    loaded     number of files that were loaded
    left_out   name of a file -> its problems, each one line
    key        of the asset
    errors     InvalidInputError for anything that is left out where LAKEIDX_REFUSE_LEFT_OUT is set, as in a build
    """
    if left_out and os.environ.get(_REFUSE):
        raise InvalidInputError("; ".join(_describe(left_out).splitlines()))
    text = _describe(left_out) or f"All {loaded} pipeline files are loaded."
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    rows = [{"file": name, "problem": problem} for name, problems in left_out.items() for problem in problems]
    metadata = {
        "lakeidx/loaded": loaded,
        "lakeidx/left_out": len(left_out),
        "lakeidx/problems": records_table(rows) if rows else dg.MetadataValue.text("none"),
    }
    description = f"{what}\n\n{text}"
    asset = dg.AssetSpec(key, group_name=GROUP, description=description, metadata=metadata, kinds={"yaml"})

    @dg.asset_check(
        asset=key, name=CHECK, description="What describes tables could be loaded; what has a mistake is left out."
    )
    def every_pipeline_file_loads() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=not left_out, description=text, metadata=metadata)

    @dg.sensor(
        name=f"{'__'.join(key.path)}_sensor",
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Shows what is left out as a failed check of {key.to_user_string()}.",
    )
    def pipeline_files_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        if context.cursor == digest:
            return dg.SensorResult(skip_reason=text, cursor=digest)
        event = dg.AssetCheckEvaluation(
            asset_key=key, check_name=CHECK, passed=not left_out, description=text, metadata=metadata
        )
        return dg.SensorResult(asset_events=[event], cursor=digest)

    checks = [kept_checks(every_pipeline_file_loads)]
    return dg.Definitions(assets=[asset], asset_checks=checks, sensors=[pipeline_files_sensor])


def _describe(left_out: Mapping[str, tuple[str, ...]]) -> str:
    """List what is wrong, a line each; empty when nothing is."""
    return "\n".join(f"{name}: {problem}" for name, problems in left_out.items() for problem in problems)
