"""Reads of a check in tasks: pages of data files, keys of buckets.

Each module has one item of work and one function, which a runner maps over files or buckets here or on Spark. What is wrong with a
file is in the answer, so that one fault does not hide the others; only a store that does not answer ends the work.

Rules do not belong here, nor what one process reads by itself (`lakeidx.quality.load`).
"""
