"""Great Expectations' own page of a validation, its Data Docs, as one HTML file that needs no other.

The library's page takes its looks (Bootstrap, icons) and its scripts from other hosts. Without the internet it is bare, and with it
those hosts learn who looks at which page. Both are replaced by the few rules of style that the page uses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lakeidx.dagster.expectations.library import LIBRARY_VERSION, SuiteResult
from lakeidx.errors import InternalError

#: What the page has from elsewhere, or what is of no use without it: style sheets, scripts, pictures, an advertisement.
_FOREIGN = re.compile(
    r"<link\b[^>]*>|<script\b.*?</script>|<img\b[^>]*>|<footer>.*?</footer>|background: url\([^)]*\)[^;]*;", re.DOTALL
)
#: Links to pages that this one stands without.
_HOME = re.compile(r'<a href="(?:\.\./)+[^"]*"\s*>(.*?)</a>', re.DOTALL)
_FAILED_ONLY = "document.body.classList.toggle('failed-only', {})"
_STYLE = """<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 0; color: #212529; background: #fff }
*, *::before { box-sizing: border-box }
.row { display: flex; flex-wrap: wrap } .container-fluid { padding: 0 1rem; width: 100% }
body > .container-fluid { padding: 1rem 2rem }
.col-12 { flex: 0 0 100%; max-width: 100% } .col-6 { flex: 0 0 50%; max-width: 50% } .col-md-2 { flex: 0 0 16%; max-width: 16% }
.col-md-10 { flex: 0 0 84%; max-width: 84%; padding-left: 1.5rem } .sticky { position: sticky; top: 1rem }
h4, h5, h6, .h6 { margin: 0; font-weight: 600 } h4 { font-size: 1.4rem } h5 { font-size: 1.15rem } h6, .h6 { font-size: 1rem }
.navbar > .mr-auto, .breadcrumb, .nav { list-style: none; margin: 0; padding: 0 } .breadcrumb { display: flex; padding: 1rem 2rem }
.breadcrumb-item + .breadcrumb-item::before { content: "/"; padding: 0 .5rem; color: #6c757d }
.border-bottom { border-bottom: 1px solid #dee2e6 }
.card { border: 1px solid #dee2e6; border-radius: 4px; margin: 0 0 1rem } .card-header { background: #f1f3f5; padding: .5rem }
.card-body { padding: .75rem } .alert { background: #e2e3e5; border-radius: 4px; padding: .6rem 1rem; margin: .5rem 0 }
.collapse:not(:target) { display: none }
.table { border-collapse: collapse; width: 100% } .table td, .table th { padding: .5rem; border-top: 1px solid #dee2e6 }
.table td, .table th { text-align: left; vertical-align: top }
.badge { background: #6c757d; color: #fff; border-radius: 4px; padding: .1rem .4rem; font-size: 85% }
.btn { border: 1px solid #0d6efd; padding: .25rem .5rem; cursor: pointer; display: block }
a { color: #0d6efd; text-decoration: none }
.text-success { color: #198754 } .text-danger { color: #dc3545 } .text-warning { color: #b58100 } .fas { font-style: normal }
.fa-check-circle::before { content: "\\2714" } .fa-times::before { content: "\\2718" }
.fa-exclamation-triangle::before { content: "\\26A0" }
.failed-only tr:has(.hide-succeeded-validation-target-child), .failed-only .hide-succeeded-validation-target { display: none }
.failed-only .ge-section:has(.hide-succeeded-validations-column-section-target-child) { display: none }
</style>
"""


def data_docs_page(title: str, results: Sequence[Any]) -> str:
    """Return the page of some expectations that were judged together, whole in itself.

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
    return _whole_in_itself(page)


def _whole_in_itself(page: str) -> str:
    """Return a page without what it has from elsewhere; its choice of failed expectations only keeps working."""
    own = _HOME.sub(r"\1", _FOREIGN.sub("", page)).replace("</head>", f"{_STYLE}</head>", 1)
    own = own.replace("showAllValidations()", _FAILED_ONLY.format("false"))
    return own.replace("hideSucceededValidations()", _FAILED_ONLY.format("true"))
