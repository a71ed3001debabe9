"""Spark's Python workers: the Python that they run, and what they have loaded when they begin."""
