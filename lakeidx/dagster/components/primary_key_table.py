"""The component `PrimaryKeyTable`: a pipeline file as attributes of a ``defs.yaml``."""

from __future__ import annotations

from typing import Self

import dagster as dg
from pydantic import BaseModel

from lakeidx.dagster.components.attributes import PrimaryKeyTableAttributes, Resources, pipeline_of
from lakeidx.dagster.components.scaffolding import PrimaryKeyTableScaffolder
from lakeidx.dagster.factory import build_table, merged_definitions
from lakeidx.pipeline_file.model import PipelineConfig


@dg.scaffold_with(PrimaryKeyTableScaffolder)
class PrimaryKeyTable(dg.Component):
    """A table that landing files are upserted into, with its stages, checks, sensors and schedules."""

    def __init__(self, pipeline: PipelineConfig, resources: Resources = "environment") -> None:
        self.pipeline = pipeline
        self.resources = resources

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes: that of pipeline files."""
        return PrimaryKeyTableAttributes

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Make the component of a ``defs.yaml``.

        errors   PipelineFileError naming file, line and column of every mistake
        """
        assert isinstance(attributes, PrimaryKeyTableAttributes)
        return cls(pipeline_of(attributes, context), attributes.resources)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the assets, checks, jobs, sensors and schedules of the table."""
        return merged_definitions([build_table(self.pipeline)], self.resources == "environment")
