"""Advice on index types: measured keys, a cost model, a recommendation.

Import `advise`.
Nothing here runs in a batch.
"""
