"""Statements in Spark, `lakeidx.spark.sql`: SELECT with what it surely needs given to scans, and the verbs of a warehouse.

`select` is the door, and runs queries; `changes` runs the others, which `lakeidx.api.sql` reads, with frames and views as sources
and Spark's tasks for the stages of their batches.
"""
