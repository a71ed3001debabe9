"""Spark's Python workers: the Python that they run, and the daemon that they are forked from.

    from lakeidx.spark.workers.python import check_worker_python, python_errors, runs_lakeidx

What workers do with items and rows is the runner's (`lakeidx.spark.runner`).
"""
