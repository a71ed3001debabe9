"""Great Expectations' own page of a validation, its Data Docs, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dagster_project.expectations.of_rows import Outcome
from dagster_project.expectations.verdicts import LIBRARY_VERSION, SuiteResult
from lakeidx.errors import InternalError


def data_docs_page(title: str, outcomes: Sequence[Outcome]) -> str:
    """Return the page of some expectations that were judged together; its style sheets come from the internet.

    title   what was judged
    """
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    results = [_whole(o) for o in outcomes if o.result is not None]
    met = sum(bool(r.success) for r in results)
    statistics = {
        "evaluated_expectations": len(results),
        "successful_expectations": met,
        "unsuccessful_expectations": len(results) - met,
        "success_percent": 100 * met / len(results) if results else None,
    }
    suite = SuiteResult(
        success=met == len(results),
        results=results,
        suite_name=title,
        statistics=statistics,
        meta={"great_expectations_version": LIBRARY_VERSION},
    )
    view: Any = DefaultJinjaPageView()
    page = view.render(ValidationResultsPageRenderer().render(suite))
    if not isinstance(page, str):
        raise InternalError("Great Expectations made no page of its results")
    return page


def _whole(outcome: Outcome) -> Any:
    """Return the library's result of the last piece with the counts of all."""
    result = outcome.result
    result.success = outcome.passed
    found = {k: v.item() if isinstance(v, np.generic) else v for k, v in result.result.items()}
    if outcome.unexpected is not None:
        judged, rows = outcome.judged, outcome.rows
        found |= {
            "element_count": rows,
            "unexpected_count": outcome.unexpected,
            "missing_count": rows - judged,
            "missing_percent": 100 * (rows - judged) / rows if rows else 0.0,
            "unexpected_percent": 100 * outcome.unexpected / judged if judged else 0.0,
            "unexpected_percent_total": 100 * outcome.unexpected / rows if rows else 0.0,
            "unexpected_percent_nonmissing": 100 * outcome.unexpected / judged if judged else 0.0,
            "partial_unexpected_list": list(outcome.sample),
        }
        # Counts of single values are those of the last piece only.
        found.pop("partial_unexpected_counts", None)
    result.result = found
    return result
