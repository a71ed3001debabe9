"""Structured streaming: a table that a query follows, and a table that a query writes.

Both are made by `lakeidx.spark.datasource`, when a query asks for them.
"""
