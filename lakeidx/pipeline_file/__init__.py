"""The pipeline file of a deployment: one YAML file per table, with the lines of its mistakes, partitions of landing files, and the
checks it requests.

Import `load_pipeline` and the model; `table_checks` judges a table or the buckets that a run has touched, `batch_checks` a
committed batch, by the rules of `lakeidx.quality` and the limits of the file. What a failed check blocks and how it looks
belongs to `lakeidx.dagster`. Nothing here knows Dagster or Spark.
"""
