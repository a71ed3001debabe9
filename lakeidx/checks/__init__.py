"""What is checked of a pipeline's table: which rules suit it, over which rows they go, with the limits of its file.

Import `of_table` for a table or the buckets that a run has touched, `of_batch` for a committed batch. Both read and give results
of `lakeidx.quality`, as plain data that a job can send. What a failed check blocks and how it looks belongs to `lakeidx.dagster`;
the rules themselves to `lakeidx.quality`.
"""
