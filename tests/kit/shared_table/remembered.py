"""Metadata files of a history decoded once: of a new process the requests count, and what it makes of what it has read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from lakeidx.table import entry_decoder, manifest_files, metadata

#: Decoders, where they are called.
_DECODERS = (
    (entry_decoder, "decode_entries"),
    (manifest_files, "decode_manifest_list"),
    (manifest_files, "decode_index_manifest"),
    (metadata, "decode_schema"),
    (metadata, "decode_snapshot"),
)
#: What asks a decoder for a part of a file.
_PARTS = ("keep", "partitions")


@contextmanager
def decoded_once() -> Iterator[None]:
    """Decode the same bytes once, whoever reads them."""
    with ExitStack() as stack:
        for module, name in _DECODERS:
            stack.enter_context(mock.patch.object(module, name, _remembering(getattr(module, name))))
        yield


def _remembering(decode: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[bytes, Any] = {}

    def decoded(data: bytes, *path: str, **which: Any) -> Any:
        if any(which.get(part) is not None for part in _PARTS):
            return decode(data, *path, **which)
        if data not in known:
            known[data] = decode(data, *path, **which)
        return known[data]

    return decoded
