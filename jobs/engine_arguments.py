"""Where the tasks of a job run: the arguments every job takes for it, and the runner they ask for."""

from __future__ import annotations

import argparse

from lakeidx.pipeline.runner import LocalRunner, Runner


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """``--engine``, ``--master``, ``--remote`` and ``--parallelism``."""
    parser.add_argument(
        "--engine", choices=("spark", "local"), default="spark", help="local: in this process, without Spark"
    )
    parser.add_argument("--master", help="Spark master; by default what spark-submit says, else local[*]")
    parser.add_argument("--remote", help="Spark Connect address, sc://host:15002")
    parser.add_argument("--parallelism", type=int, help="slots of the cluster, or threads with --engine local")


def local_runner(arguments: argparse.Namespace) -> Runner:
    """Tasks in threads of this process."""
    return LocalRunner(arguments.parallelism or 2)


def spark_runner(arguments: argparse.Namespace, name: str) -> Runner:
    """Tasks on Spark; `name` is what Spark's own pages call the application."""
    # Without Spark asked for, none needs to be installed.
    from lakeidx.spark.runner import SparkRunner
    from lakeidx.spark.session import get_session

    session = get_session(master=arguments.master, remote=arguments.remote, app_name=f"lakeidx {name}")
    return SparkRunner(session, parallelism=arguments.parallelism)
