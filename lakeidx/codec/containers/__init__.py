"""Bytes around values: the Avro container, block compression, checksums.

Import the readers and writers of containers; they do no I/O.
Records of one file kind live in `lakeidx.format`.
"""
