"""The pipeline file of a deployment: one YAML file per table, with the lines of its mistakes, and partitions of
landing files.

Import `load_pipeline` and the model.
Nothing here knows Dagster or Spark.
"""
