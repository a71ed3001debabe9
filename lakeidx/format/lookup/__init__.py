"""Bytes of the two lookup file kinds: the sort store (SST) and the hash store.

Import the decoders and encoders; they do no I/O.
Readers and writers of the stores live in `lakeidx.lookup`.
"""
