"""Errors of the data source in Spark's messages: one line, with the traceback only when ``traceback`` = ``true``.

Spark's workers send the text of an error with its traceback, unless their environment has a name set. They end after an error, so
setting it then hides no other one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, TypeVar, cast

from lakeidx.errors import LakeIdxError

F = TypeVar("F", bound=Callable[..., Any])

#: Option of a read or write.
OPTION = "traceback"
#: What Spark's workers look for when they send an error (`pyspark.util.handle_worker_exception`).
_HIDE = "SPARK_HIDE_TRACEBACK"
#: How the main modules of processes begin that Spark starts: its own, and lakeidx's daemon with the workers forked from it.
_WORKERS = ("pyspark.", "lakeidx.spark.workers.")


def one_line(method: F) -> F:
    """Make Spark show a `LakeIdxError` of a method, called in one of its workers, by its line alone.

    method   of an object whose ``options`` say whether the traceback is wanted: a mapping, or an object with ``traceback``
    """
    if isgeneratorfunction(method):

        @wraps(method)
        def steps(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            try:
                yield from method(self, *args, **kwargs)
            except LakeIdxError:
                _hide(self.options)
                raise

        return cast(F, steps)

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except LakeIdxError:
            _hide(self.options)
            raise

    return cast(F, call)


def _hide(options: Any) -> None:
    wanted = options.get(OPTION) == "true" if isinstance(options, Mapping) else options.traceback
    if not wanted and _in_a_worker():
        os.environ[_HIDE] = "1"


def _in_a_worker() -> bool:
    """Return True in a process that Spark started."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith(_WORKERS)
