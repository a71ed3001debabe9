"""A process of its own that works on the same tables; its handle stays open from step to step, as in a service."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError
from lakeidx.storage import LocalStore
from lakeidx.table.metadata import TableMetadata


class OtherProcess:
    """Runs calls one after another; it starts once, when it is first asked."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        # It ends when this process does, whose end of the pipe is the only one.
        number = theirs.fileno()
        self._process = subprocess.Popen([sys.executable, "-m", __name__, str(number)], pass_fds=[number])
        theirs.close()

    def start(self, root: str, call: Callable[[Table], Any] | None) -> None:
        """Ask for `call` with the handle of the table in `root`; None: close the handle, so that the next call opens one."""
        self._pipe.send((root, call))

    def finish(self) -> Any:
        """Wait for what was asked for: its result, or the LakeIdxError as a value. AssertionError for any other error."""
        fine, answer = self._pipe.recv()
        assert fine, f"in another process: {answer}"
        return answer


@functools.cache
def other_process() -> OtherProcess:
    """Return the one of this process."""
    return OtherProcess()


def _serve(pipe: Connection) -> None:
    root, table = "", None
    while True:
        try:
            wanted, call = pipe.recv()
        except EOFError:
            return
        try:
            if wanted != root or table is None or call is None:
                root, table = wanted, None
            answer: Any = None
            if call is not None:
                if table is None:
                    store = LocalStore(root, sync=False)
                    table = Table(store, TableMetadata.open(store, root).paths)
                answer = call(table)
            pipe.send((True, answer))
        except LakeIdxError as error:
            pipe.send((True, error))
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
