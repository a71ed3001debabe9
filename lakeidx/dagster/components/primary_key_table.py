"""The component `PrimaryKeyTable`: a pipeline file as attributes of a ``defs.yaml``."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from lakeidx.dagster.components.attributes import PrimaryKeyTableAttributes
from lakeidx.dagster.components.members import Member
from lakeidx.dagster.components.scaffolding import PrimaryKeyTableScaffolder
from lakeidx.dagster.factory import build_table, merged_definitions
from lakeidx.dagster.names import key_prefix
from lakeidx.pipeline_file.model import PipelineConfig, shared_with_others
from lakeidx.pipeline_file.problems import fail


@dg.scaffold_with(PrimaryKeyTableScaffolder)
class PrimaryKeyTable(Member):
    """A table that landing files are upserted into, with its stages, checks, sensors and schedules."""

    model = PrimaryKeyTableAttributes
    attributes: PrimaryKeyTableAttributes
    compared = False

    def claims(self, table: str) -> bool:
        """Return whether it is this table, by its name or as its asset's key has it."""
        return table in (self.attributes.table, ".".join(key_prefix(self.attributes)))

    def build_own(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        """Build the assets, checks, jobs, sensors and schedules of the table."""
        if not self.compared and self.given is not None:
            _compare([m for m in self.members(context) if isinstance(m, PrimaryKeyTable)])
        if self.problems:
            return self.build_left_out(self.problems)
        return [merged_definitions([build_table(self.attributes)], self.build_resources(context))]


def _compare(components: Sequence[PrimaryKeyTable]) -> None:
    """Note as a problem of a component what an earlier one describes already: the table, or landing files."""
    earlier: dict[str, PipelineConfig] = {}
    for component in components:
        component.compared = True
        pipeline, given = component.attributes, component.given
        if component.problems or given is None:
            continue
        shared = list(shared_with_others(pipeline, given.document, earlier))
        if shared:
            component.problems = given.placed(fail(shared, given.path).problems)
        else:
            earlier[component.file] = pipeline
