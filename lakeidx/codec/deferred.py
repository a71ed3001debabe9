"""Kernels before Numba is there: a few rows run as plain Python, and Numba comes when there is more to do.

Importing Numba takes about as long as a small batch. A process that says
`defer` before it imports kernels, as the command line does, gets stand-ins for them. A kernel that is ``small`` runs as the Python
function that it is while what it is given is small. The first call that is not, or of a kernel that is not, puts compiled kernels
in the place of all stand-ins, and from then on the process is like any other.

A small kernel gives the same results either way: numbers that may pass their type's range are made of NumPy's types, which wrap as
machine words do. `tests/unit/codec/test_deferred.py` runs both beside each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from importlib.abc import MetaPathFinder
from threading import RLock, get_ident
from typing import Any

import numpy as np

#: Elements of arguments that a process passes to Python before it gets Numba; each costs microseconds.
_AFFORDABLE = 50_000

_Surroundings = Callable[[], AbstractContextManager[None]]


class StandIn:
    """A kernel that is not compiled yet.

    python     the kernel as Python has it
    compiled   gives the compiled one, which may import Numba
    small      whether it may run in Python
    """

    def __init__(self, python: Callable[..., Any], compiled: Callable[[], Any], *, small: bool) -> None:
        self._python, self._compiled, self._small = python, compiled, small

    def __call__(self, *args: Any) -> Any:
        """Run in Python or compiled."""
        with _STATE.lock:
            if self._small and _STATE.afford(args):
                return _STATE.run(self._python, args)
            _STATE.compile_all()
        return self._compiled()(*args)

    def __getattr__(self, name: str) -> Any:
        """Have what the compiled kernel has."""
        _STATE.compile_all()
        return getattr(self._compiled(), name)


class _State:
    """What this process has put off."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.deferring = False
        self.surroundings: _Surroundings = nullcontext
        # What stands in modules now, and what gives the compiled form of it.
        self.stand_ins: list[tuple[Any, Callable[[], Any]]] = []
        self.packages: set[str] = set()
        self.left = _AFFORDABLE
        self.running = False

    def afford(self, args: tuple[Any, ...]) -> bool:
        """Subtract the size of a call from the budget; calls within a call are part of it."""
        if self.running:
            return True
        cost = sum(a.size if isinstance(a, np.ndarray) else len(a) if isinstance(a, bytes) else 1 for a in args)
        if not self.deferring or cost > self.left:
            return False
        self.left -= cost
        return True

    def run(self, python: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self.running:
            return python(*args)
        self.running = True
        try:
            with np.errstate(over="ignore"):
                return python(*args)
        finally:
            self.running = False

    def compile_all(self) -> None:
        with self.lock:
            if not self.deferring:
                return
            self.deferring = False
            with self.surroundings():
                made = {id(now): compiled() for now, compiled in self.stand_ins}
            for name, module in list(sys.modules.items()):
                if name.partition(".")[0] in self.packages:
                    names = vars(module)
                    names.update({n: made[id(value)] for n, value in list(names.items()) if id(value) in made})


_STATE = _State()


def defer(surroundings: _Surroundings = nullcontext) -> None:
    """Put Numba off, for modules that are imported from now on; does nothing when it is imported.

    surroundings   entered while Numba is imported and kernels are declared
    """
    if "numba" not in sys.modules:
        _STATE.deferring, _STATE.surroundings = True, surroundings


def declared(
    python: Callable[..., Any], make: Callable[[], Any], *, kernel: bool = False, small: bool = False
) -> Callable[..., Any]:
    """Return compiled code, or its substitute while Numba is deferred: a `StandIn` of a kernel, else the function itself.

    python   the function; of an intrinsic one that does the same on small numbers
    make     gives the compiled code
    """
    made: list[Any] = []

    def compiled() -> Any:
        if not made:
            _import_numba()
            made.append(make())
        return made[0]

    # Modules are imported in threads, too: while one has all kernels compiled, the others wait.
    with _STATE.lock:
        if _STATE.deferring:
            stand_in = StandIn(python, compiled, small=small) if kernel else python
            _STATE.stand_ins.append((stand_in, compiled))
            _STATE.packages.add(getattr(python, "__module__", __name__).partition(".")[0])
            return stand_in
    return compiled()  # type: ignore[no-any-return]


def _import_numba() -> None:
    """Import Numba without coverage.py, which it looks for and which no kernel needs; one that is loaded is used."""
    if "numba" not in sys.modules:
        with absent("coverage"):
            import_module("numba")


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Pretend to what this thread imports that a module that is not loaded is missing."""
    finder = _Absent(name, get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Absent(MetaPathFinder):
    def __init__(self, name: str, thread: int) -> None:
        self._name, self._thread = name, thread

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for the name; leave all others to the finders that follow."""
        if fullname == self._name and get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is left out", name=fullname)
