"""Making and keeping s3fs clients: one per process and options, one try per request, nothing closed by a forked child."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeidx.storage.s3.options import S3Options

if TYPE_CHECKING:
    from s3fs import S3FileSystem

Clients = dict[tuple[int, str, str], "S3FileSystem"]

# Clients by (process, options, environment): making one takes half a second, and a Spark worker unpickles a store per task.
# Those of the parent stay here after a fork, so that nothing closes sockets that are still in use over there.
SHARED_CLIENTS: Clients = {}


def _environment() -> str:
    return repr(sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_")))


def client_for(options: S3Options, raw_options: str, clients: Clients) -> S3FileSystem:
    """Return the client of this process for some options; made when it is first requested.

    raw_options   what tells options apart
    clients       `SHARED_CLIENTS`, or a dictionary of the caller's for connections of its own
    """
    key = (os.getpid(), raw_options, _environment())
    found = clients.get(key)
    # Two threads may both make one; no lock, since a fork could leave it taken for ever.
    return clients.setdefault(key, _connect(options)) if found is None else found


def _connect(options: S3Options) -> S3FileSystem:
    # Importing s3fs takes a second, which tables on a local disk need not wait for.
    from s3fs import S3FileSystem

    kwargs = options.s3fs_kwargs()
    kwargs["config_kwargs"].setdefault("http_session_cls", _one_try_session())
    fs = S3FileSystem(**kwargs)
    fs.retries = 1
    fs.close_session = functools.partial(_close_session, os.getpid(), fs.close_session)
    return fs


def _close_session(pid: int, close: Callable[[Any, Any], None], loop: Any, client: Any) -> None:
    """Close a session as s3fs's finalizer does, only in the process that made it: after a fork the sockets are the parent's."""
    if os.getpid() == pid:
        close(loop, client)


@functools.cache
def _one_try_session() -> type:
    """Make an HTTP session that sends each request once.

    aiohttp sends a PUT again by itself when the connection breaks before the answer. If the first one had reached the store, the
    second would find our own file and we would take the snapshot for another writer's.
    """
    from aiobotocore.httpsession import AIOHTTPSession

    class OneTrySession(AIOHTTPSession):  # type: ignore[misc]
        async def _get_session(self, proxy_url: str | None) -> Any:
            session = await super()._get_session(proxy_url)
            session._retry_connection = False
            return session

    return OneTrySession
