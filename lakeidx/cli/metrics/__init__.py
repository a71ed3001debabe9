"""``lakeidx metrics``: figures of tables for Prometheus and its like.

Its command is in `lakeidx.cli.metrics.command`; the figures come from `lakeidx.maintenance.metrics`.
"""
