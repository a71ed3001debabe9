"""The component `FeedTables`: the pipeline file of a feed of many tables as attributes of a ``defs.yaml``."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import dagster as dg

from lakeidx.dagster.components.attributes import FeedTablesAttributes
from lakeidx.dagster.components.members import Member
from lakeidx.dagster.components.scaffolding import FeedTablesScaffolder
from lakeidx.dagster.factory import TableDefinitions, build_feed, merged_definitions


@dg.scaffold_with(FeedTablesScaffolder)
class FeedTables(Member):
    """The tables that a feed fills, with the step that reads its files, their upkeep, checks, sensors and schedules."""

    model = FeedTablesAttributes
    attributes: FeedTablesAttributes

    @cached_property
    def built(self) -> TableDefinitions:
        """The step, the tables, and what keeps them."""
        return build_feed(self.attributes)

    def claims(self, table: str) -> bool:
        """Return whether it is the feed, or one of its tables that are known."""
        return table in self.built.told

    def build_own(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        """Build the definitions, unless a table is another component's."""
        earlier: Any = [] if self.given is None else itertools.takewhile(lambda m: m is not self, self.members(context))
        for member in (m for m in earlier if not m.problems):
            shared = next((name for name in self.built.told if member.claims(name)), None)
            if shared is not None:
                return self.build_left_out([f"table {shared} is described by {member.file} already: leave it to one"])
        return [merged_definitions([self.built], self.build_resources(context))]
