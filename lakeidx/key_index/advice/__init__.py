"""Which index type fits a workload: measured keys, a cost model, a recommendation.

Import `advise`.
Nothing here runs in a batch.
"""
