"""The component `PrimaryKeyTable`: a pipeline file as attributes of a ``defs.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import dagster as dg
from pydantic import BaseModel

from lakeidx.dagster.components.attributes import Attributes, PrimaryKeyTableAttributes, Resources, as_given
from lakeidx.dagster.components.members import Member, quiet
from lakeidx.dagster.components.scaffolding import PrimaryKeyTableScaffolder
from lakeidx.dagster.factory import build_table, merged_definitions
from lakeidx.dagster.names import key_prefix
from lakeidx.pipeline_file.model import PipelineConfig, shared_with_others
from lakeidx.pipeline_file.problems import PipelineFileError, fail
from lakeidx.pipeline_file.sections import AlertConfig


@dg.scaffold_with(PrimaryKeyTableScaffolder)
class PrimaryKeyTable(Member, dg.Component):
    """A table that landing files are upserted into, with its stages, checks, sensors and schedules."""

    def __init__(self, pipeline: PipelineConfig | None, resources: Resources = "environment") -> None:
        self.pipeline = pipeline
        self.resources = resources
        self.compared = False

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes: that of pipeline files."""
        return as_given(PrimaryKeyTableAttributes)

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Make the component of a ``defs.yaml``; mistakes are its `problems`, each with line and column."""
        given = Attributes.read(attributes, context)
        try:
            made = cls(*given.pipeline())
        except PipelineFileError as error:
            made = cls(None)
            made.problems = given.placed(error.problems)
        made.given = given
        return made

    @property
    def told(self) -> Sequence[AlertConfig]:
        """Who is told when a run of the table failed."""
        return () if self.pipeline is None else self.pipeline.alerts

    @property
    def resources_taken(self) -> tuple[str, str] | None:
        """What the names of its resources begin with, and whose they are."""
        return None if self.pipeline is None else (self.pipeline.resource_prefix, self.resources)

    def claims(self, table: str) -> bool:
        """Return whether it is this table, by its name or as its asset's key has it."""
        return self.pipeline is not None and table in (self.pipeline.table, ".".join(key_prefix(self.pipeline)))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the assets, checks, jobs, sensors and schedules of the table."""
        with quiet():
            return dg.Definitions.merge(*self.build_shared(context), *self._build_own(context))

    def _build_own(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        if not self.compared and self.given is not None:
            _compare([m for m in self.members(context) if isinstance(m, PrimaryKeyTable)])
        if self.problems or self.pipeline is None:
            return self.build_left_out(self.problems)
        return [merged_definitions([build_table(self.pipeline)], self.build_resources(context))]


def _compare(components: Sequence[PrimaryKeyTable]) -> None:
    """Note as a problem of a component what an earlier one describes already: the table, or landing files."""
    earlier: dict[str, PipelineConfig] = {}
    for component in components:
        component.compared = True
        pipeline, given = component.pipeline, component.given
        if pipeline is None or given is None:
            continue
        shared = list(shared_with_others(pipeline, given.document, earlier))
        if shared:
            component.problems = given.placed(fail(shared, given.path).problems)
        else:
            earlier[component.file] = pipeline
