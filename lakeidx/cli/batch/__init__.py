"""``lakeidx batch``: the batches that stopped before their commit, and what is decided about them.

Import `commands` to run one. What holds a batch, and what a decision does, is in `lakeidx.batch.held`; nothing is decided here.
"""
