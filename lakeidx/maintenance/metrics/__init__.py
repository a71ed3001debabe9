"""Metrics of tables, their newest batches and their upkeep, as OpenMetrics.

Import `TableMetrics`, `metrics_text` and `serve_metrics`; they need the extra ``lakeidx[metrics]``.
"""
