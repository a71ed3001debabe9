"""Great Expectations' page of the expectations of a pipeline file, written to the folder that it names; checks link to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakeidx.dagster.metadata.reports import link
from lakeidx.dagster.resources import StoreResource
from lakeidx.pipeline_file.model import PipelineConfig


@dataclass(frozen=True, slots=True)
class DocsPage:
    """The place of a page: its name in the folder."""

    store: StoreResource
    name: str

    def write(self, config: PipelineConfig, results: Sequence[Any]) -> dict[str, Any]:
        """Write the page of the library's results and return the link to it; nothing for a pipeline without that folder."""
        if config.data_docs is None:
            return {}
        from lakeidx.dagster.expectations.data_docs import data_docs_page

        path = f"{config.data_docs.rstrip('/')}/{config.table}/{self.name}.html"
        page = data_docs_page(f"{config.table} {self.name}", results)
        self.store.open(path).put(path, page.encode())
        return {"lakeidx/data_docs": link(path)}
