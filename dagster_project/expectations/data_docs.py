"""Great Expectations' own page of a validation, its Data Docs, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dagster_project.expectations.library import LIBRARY_VERSION, SuiteResult
from lakeidx.errors import InternalError


def data_docs_page(title: str, results: Sequence[Any]) -> str:
    """Return the page of some expectations that were judged together; its style sheets come from the internet.

    title    what was judged
    results  the library's own, of expectations
    """
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    met = sum(bool(r.success) for r in results)
    statistics = {
        "evaluated_expectations": len(results),
        "successful_expectations": met,
        "unsuccessful_expectations": len(results) - met,
        "success_percent": 100 * met / len(results) if results else None,
    }
    suite = SuiteResult(
        success=met == len(results),
        results=list(results),
        suite_name=title,
        statistics=statistics,
        meta={"great_expectations_version": LIBRARY_VERSION},
    )
    view: Any = DefaultJinjaPageView()
    page = view.render(ValidationResultsPageRenderer().render(suite))
    if not isinstance(page, str):
        raise InternalError("Great Expectations made no page of its results")
    return page
