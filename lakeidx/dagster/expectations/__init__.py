"""Verdicts on figures of quality rules, and Great Expectations over rows.

Import `verdicts.judge`, which needs no library. Great Expectations takes seconds to import: modules that use it (`library`,
`of_rows`, `data_docs`) are imported only where a pipeline asks for it, in the background by `lakeidx.dagster.preload`.
The rules themselves live in `lakeidx.quality`.
"""
