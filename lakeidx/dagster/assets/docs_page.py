"""Great Expectations' page of what was judged, written to the folder that the pipeline file names; checks link to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakeidx.dagster.metadata.reports import link
from lakeidx.dagster.resources import StoreResource
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.quality.result import BucketId, RuleResult


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

    def write_rules(
        self,
        config: PipelineConfig,
        results: Sequence[RuleResult],
        index: Callable[[], Mapping[BucketId, NDArray[np.int32]]] = dict,
    ) -> dict[str, Any]:
        """Let Great Expectations judge the figures of rules, and write its page; nothing for a pipeline without that folder.

        index    reads hashes that the rules have read, which are judged, too; called when there is a page to write
        """
        if config.data_docs is None:
            return {}
        from lakeidx.dagster.expectations.of_rules import judge_rules

        return self.write(config, judge_rules(results, config.checks, index()))
