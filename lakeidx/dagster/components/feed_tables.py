"""The component `FeedTables`: the pipeline file of a feed of many tables as attributes of a ``defs.yaml``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Self

import dagster as dg
from pydantic import BaseModel

from lakeidx.dagster.components.attributes import Attributes, FeedTablesAttributes, as_given
from lakeidx.dagster.components.members import Member, quiet
from lakeidx.dagster.components.scaffolding import FeedTablesScaffolder
from lakeidx.dagster.factory import TableDefinitions, build_feed, merged_definitions
from lakeidx.pipeline_file.problems import PipelineFileError
from lakeidx.pipeline_file.sections import AlertConfig


@dg.scaffold_with(FeedTablesScaffolder)
class FeedTables(Member, dg.Component):
    """The tables that a feed fills, with the step that reads its files, their upkeep, checks, sensors and schedules."""

    def __init__(self, feed: FeedTablesAttributes | None) -> None:
        self.feed = feed
        self._made: TableDefinitions | None = None

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes: that of pipeline files of feeds."""
        return as_given(FeedTablesAttributes)

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Make the component of a ``defs.yaml``; mistakes are its `problems`, each with line and column."""
        given = Attributes.read(attributes, context)
        try:
            made = cls(given.checked(FeedTablesAttributes))
        except PipelineFileError as error:
            made = cls(None)
            made.problems = given.placed(error.problems)
        made.given = given
        return made

    @property
    def told(self) -> Sequence[AlertConfig]:
        """Who is told when a run of the feed or of one of its tables failed."""
        return () if self.feed is None else self.feed.alerts

    @property
    def resources_taken(self) -> tuple[str, str] | None:
        """What the names of its resources begin with, and whose they are."""
        return None if self.feed is None else (self.feed.resource_prefix, self.feed.resources)

    def claims(self, table: str) -> bool:
        """Return whether it is the feed, or one of its tables that are known."""
        return self.feed is not None and table in self._built(self.feed).told

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the step, the tables, and what keeps them."""
        with quiet():
            return dg.Definitions.merge(*self.build_shared(context), *self._build_own(context))

    def _built(self, feed: FeedTablesAttributes) -> TableDefinitions:
        if self._made is None:
            self._made = build_feed(feed)
        return self._made

    def _build_own(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        if self.problems or self.feed is None:
            return self.build_left_out(self.problems)
        made = self._built(self.feed)
        earlier: Any = [] if self.given is None else itertools.takewhile(lambda m: m is not self, self.members(context))
        for member in (m for m in earlier if not m.problems):
            shared = next((name for name in made.told if member.claims(name)), None)
            if shared is not None:
                return self.build_left_out([f"table {shared} is described by {member.file} already: leave it to one"])
        return [merged_definitions([made], self.build_resources(context))]
