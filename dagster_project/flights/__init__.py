"""The main job of this repository: the flights of 2013, prepared, run and reported.

`python -m dagster_project.flights.run` is the only entry; nothing imports from here.
Code that other tables need does not belong here.
"""
