"""Knowledge that the components of a project have of each other: whose a table is, who is told of a failed run, what is left out.

A component with a mistake, or of a table that another one has, makes nothing but a failed check that says so.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import dagster as dg
from pydantic import BaseModel

from lakeidx.dagster.assets.pipeline_files import build_pipeline_files
from lakeidx.dagster.components.attributes import Attributes, as_given
from lakeidx.dagster.factory import shared_resources
from lakeidx.dagster.garbage import no_search
from lakeidx.dagster.sensors.failed_runs import build_canceled_run_sensor, build_failed_run_sensor
from lakeidx.pipeline_file.problems import PipelineFileError
from lakeidx.pipeline_file.sections import AlertConfig

log = logging.getLogger(__name__)


class Member(dg.Component):
    """A component of lakeidx among those of a project.

    attributes   of the component, as its model has them; None with a mistake
    given        as they are written; None for one that code has made
    problems     what is wrong with it, each one line
    known        the components of its project, once one of them has asked
    """

    model: ClassVar[type[BaseModel]]
    #: Of two components with one table the lower one keeps it.
    rank = 0
    given: Attributes | None = None
    problems: tuple[str, ...] = ()
    known: tuple[Member, ...] = ()

    def __init__(self, attributes: Any) -> None:
        self.attributes = attributes

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """Return the model of the attributes."""
        return as_given(cls.model)

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Make the component of a ``defs.yaml``; mistakes are its `problems`, each with line and column."""
        given = Attributes.read(attributes, context)
        try:
            made = cls(given.checked(cls.model))
        except PipelineFileError as error:
            made = cls(None)
            made.problems = given.placed(error.problems)
        made.given = given
        return made

    @property
    def file(self) -> str:
        """Where it is described."""
        return type(self).__name__ if self.given is None else self.given.file

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build what the component is for, or the failed check of one with mistakes."""
        with quiet():
            shared = self.build_shared(context)
            own = self.build_left_out(self.problems) if self.problems else self.build_own(context)
            return dg.Definitions.merge(*shared, *own)

    def build_own(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        """Build what the component is for."""
        raise NotImplementedError

    def build_resources(self, context: dg.ComponentLoadContext) -> dict[str, Any]:
        """Build the resources that it brings: none where it, or another component with resources of these names, takes the
        project's, since there would be two of a name.
        """
        prefix = self.attributes.resource_prefix
        others = () if self.given is None else self.members(context)
        found = [m.attributes for m in (self, *others) if m.attributes is not None]
        by_project = any((a.resource_prefix, a.resources) == (prefix, "project") for a in found)
        return {} if by_project else shared_resources(prefix)

    def members(self, context: dg.ComponentLoadContext) -> tuple[Member, ...]:
        """List the components of lakeidx in its project, those first that keep a table which two have: once for all of them."""
        if not self.known:
            found: Any = context.component_tree.get_all_components(of_type=Member)
            known = tuple(sorted(found, key=lambda m: (m.rank, m.file)))
            for member in (*known, self):
                member.known = known
        return self.known

    def claims(self, table: str) -> bool:
        """Return whether a table, ``database.table``, is one of its own."""
        raise NotImplementedError

    def build_shared(self, context: dg.ComponentLoadContext) -> list[dg.Definitions]:
        """Build what a project has once: its first component does it."""
        if self.given is None:
            return []
        members = self.members(context)
        if members[0] is not self:
            return []

        def told(table: str) -> Sequence[AlertConfig] | None:
            return next((m.attributes.alerts for m in members if not m.problems and m.claims(table)), None)

        sensor = build_failed_run_sensor(tables=told, name="lakeidx__failed_component_runs_sensor")
        canceled = build_canceled_run_sensor("lakeidx__canceled_component_runs_sensor")
        return [dg.Definitions(sensors=[sensor, canceled])]

    def build_left_out(self, problems: Iterable[str]) -> list[dg.Definitions]:
        """Build the failed check of what is left out; nothing where nothing is."""
        left_out = {self.file: tuple(problems)}
        if not left_out[self.file]:
            return []
        for problem in left_out[self.file]:
            log.error("left out: %s: %s", self.file, problem)
        words = [re.sub(r"[^A-Za-z0-9_]", "_", p) for p in Path(self.file).parent.parts[-2:]]
        key = dg.AssetKey(["lakeidx", "components", *words])
        return [build_pipeline_files(f"What is left out of the component {self.file}.", 0, left_out, key=key)]


@contextmanager
def quiet() -> Any:
    """Make definitions without Dagster's warnings of what is used here on purpose: partitioned checks, observable sources, their
    files.
    """
    with no_search(), warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield
