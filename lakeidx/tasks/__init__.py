"""Running the tasks of a stage: the runner port, threads of this process, ordered threads, a lazily started runner.

Import `Runner`, `LocalRunner`, `LazyRunner` from the modules that have them.
What a task does belongs to its stage; Spark's runner lives in `lakeidx.spark`.
"""
