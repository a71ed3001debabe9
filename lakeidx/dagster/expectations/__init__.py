"""Figures of quality rules with their limits, and Great Expectations over rows.

Import `figures.figures_of`, which needs no library. Great Expectations takes seconds to import: modules that use it (`library`,
`of_rows`, `data_docs`) are imported only where a pipeline asks for it.
The rules themselves live in `lakeidx.quality`.
"""
