"""Sensors: they start runs, and report failed ones.

Import the ``build_*_sensor`` functions, which `lakeidx.dagster.factory` and `lakeidx.dagster.folder` use.
What a sensor decides is planned in `planning` without Dagster, so that tests need none.
"""
