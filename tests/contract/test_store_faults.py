"""Every request of the clouds' store, and what can go wrong with it: the outcome is right, or an error says it is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import tenacity

from lakeidx.errors import CommitUnknownError, InvalidInputError, LakeIdxError, UnavailableError
from lakeidx.storage import ObjectStore, open_store
from lakeidx.storage.remote import clients
from lakeidx.storage.remote import store as remote
from tests.kit.object_server import Act, ObjectServer, object_server

pytestmark = pytest.mark.slow
DIR = "s3://b/d"
PATH = f"{DIR}/f"
DATA = bytes(range(256)) * 40
LARGE = bytes(range(251)) * 100_000
#: What may pass: everything is tried again.
PASSING: tuple[Act, ...] = (429, 500, 503, "unheard", "lost", "unsure", "cut", "short", "silent")


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectServer]:
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "RETRY_WAIT", tenacity.wait_none())
        patch.setattr(clients, "FIRST_WAIT_SECONDS", 0.001)
        yield server


@pytest.fixture
def server(running: ObjectServer) -> ObjectServer:
    running.reset()
    return running


@pytest.fixture
def store(server: ObjectServer) -> ObjectStore:
    store = open_store(DIR, {**server.options, "read_timeout": 1.0, "max_attempts": 4})
    store.put(PATH, DATA)
    return store


def write(store: ObjectStore) -> None:
    with store.open_output(f"{DIR}/large") as out:
        for at in range(0, len(LARGE), 3_000_000):
            out.write(LARGE[at : at + 3_000_000])


def once(server: ObjectServer, kind: str, act: Act) -> list[Act]:
    """Do something to the next request of a kind; what is left of it."""
    left = [act]
    server.act = lambda number, seen, key: left.pop() if seen == kind and left else "pass"
    return left


def only(kind: str, act: Act, number: int, seen: str, key: str) -> Act:
    """Do something to every request of a kind."""
    return act if seen == kind else "pass"


#: Kind of the request that goes wrong, the call, and whether its outcome is right.
CALLS: dict[str, tuple[str, Callable[[ObjectStore], Any], Callable[[Any, ObjectStore], bool]]] = {
    "get": ("get", lambda s: s.get(PATH), lambda found, s: found == DATA),
    "range": ("get", lambda s: s.get_range(PATH, 7, 900), lambda found, s: found == DATA[7:907]),
    "ranges": (
        "get",
        lambda s: s.get_ranges(PATH, [(0, 50), (50, 50)]),
        lambda found, s: b"".join(found) == DATA[:100],
    ),
    "size": ("head", lambda s: s.size(PATH), lambda found, s: found == len(DATA)),
    "list": ("list", lambda s: [f.name for f in s.list(DIR)], lambda found, s: found == ["f"]),
    "walk": ("list", lambda s: [f.name for f in s.walk(DIR)], lambda found, s: found == ["f"]),
    "put": ("put", lambda s: s.put(PATH, b"new"), lambda found, s: s.get(PATH) == b"new"),
    "delete": ("delete", lambda s: s.delete_many([PATH, f"{DIR}/no"]), lambda found, s: not s.exists(PATH)),
    **{
        f"write/{kind}": (kind, write, lambda found, s: s.get(f"{DIR}/large") == LARGE)
        for kind in ("start", "part", "complete")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_what_passes_is_tried_again(server: ObjectServer, store: ObjectStore, name: str) -> None:
    kind, call, right = CALLS[name]
    for act in PASSING:
        left = once(server, kind, act)
        if (name, act) == ("write/start", "cut"):
            # Which upload was begun is not known, and its parts are not there a second time.
            with pytest.raises(UnavailableError):
                call(store)
        else:
            # What is checked may take its time on a busy machine.
            assert right(call(store), open_store(DIR, server.options)), act
        assert not left
        server.act = lambda number, seen, key: "pass"
        store.put(PATH, DATA)
        store.delete(f"{DIR}/large")
        assert not server.uploads or act in ("lost", "unsure", "cut", "silent", "short")
        server.uploads.clear()


@pytest.mark.parametrize("name", CALLS)
def test_what_stays_is_an_error_in_one_line(server: ObjectServer, store: ObjectStore, name: str) -> None:
    kind, call, _ = CALLS[name]
    acts: tuple[tuple[Act, type[LakeIdxError]], ...] = (
        (503, UnavailableError),
        ("unheard", UnavailableError),
        (409, UnavailableError),
        (403, InvalidInputError),
    )
    for act, error in acts:
        server.act = partial(only, kind, act)
        with pytest.raises(error) as caught:
            call(store)
        assert "\n" not in str(caught.value)
        assert "the-secret" not in str(caught.value)
        # An answer to HEAD has no body that could say why.
        assert act != 403 or kind == "head" or "credentials have expired" in str(caught.value)
        server.act = lambda number, seen, key: "pass"
        assert not server.uploads
        assert [f.name for f in store.walk(DIR)] == ["f"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("act", [*PASSING, 408, 409, 412, 403])
def test_a_conditional_put_says_what_it_did_or_that_it_does_not_know(
    server: ObjectServer, store: ObjectStore, act: Act, there: bool
) -> None:
    once(server, "create", act)
    path = PATH if there else f"{DIR}/new"
    outcome: Any
    try:
        outcome = store.put_if_absent(path, b"mine")
    except CommitUnknownError:
        outcome = "unknown"
    except InvalidInputError:
        outcome = "refused"
    done = store.exists(path) and store.get(path) == b"mine"
    if act in (409, "cut", "short"):
        # Answers of a put have no body that could end early.
        assert outcome == (not there)
    elif act in (412, 403):
        assert outcome == (False if act == 412 else "refused")
    else:
        # Of a put that did nothing, since an object was there, some answers say so; never that it did something.
        assert outcome == "unknown"
    assert done == (outcome is True or (not there and act in ("lost", "unsure", "silent")))


def test_listings_go_on_over_many_pages_with_faults(server: ObjectServer, store: ObjectStore) -> None:
    for n in range(30):
        server.objects[f"d/x/{n:02d}"] = (b"1", 0, n)
    server.page = 2
    wrong: Iterator[Act] = iter([503, 500, "unheard", 429] * 3)
    server.act = lambda number, seen, key: next(wrong, "pass") if seen == "list" and number % 3 == 0 else "pass"
    assert sorted(f.name for f in store.walk(f"{DIR}/x")) == [f"{n:02d}" for n in range(30)]
    assert [f.name for f in store.list(f"{DIR}/x")] == [f"{n:02d}" for n in range(30)]


def test_a_store_that_says_nothing_is_not_waited_for(server: ObjectServer, store: ObjectStore) -> None:
    assert store.get(PATH) == DATA
    server.act = lambda number, seen, key: "silent"
    with pytest.raises(UnavailableError):
        open_store(DIR, {**server.options, "read_timeout": 0.2, "max_attempts": 1}).get(PATH)
