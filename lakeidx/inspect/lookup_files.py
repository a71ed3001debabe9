"""What ``lakeidx inspect`` shows of lookup files and their listings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX, HashContext, decode_context, describe_context
from lakeidx.format.lookup.sst import describe_sst
from lakeidx.lookup.listing import decode_listing
from lakeidx.storage.base import ObjectStore


def describe_lookup_file(store: ObjectStore, path: str) -> dict[str, Any]:
    """Decode a sort store file, or a hash store file by its context (either of the two may be named).

    Needs no key types: blocks and pages are checked against their checksums, the order of keys is not.

    returns  JSON values: "kind", sizes, footer and blocks, or the context
    errors   NotFoundError; CorruptFileError for damage, or when the file is neither
    """
    path = path.removesuffix(CONTEXT_SUFFIX)
    context_path = path + CONTEXT_SUFFIX
    if not store.exists(context_path):
        return describe_sst(memoryview(store.get(path)), path=path)
    context = decode_context(store.get(context_path), path=context_path)
    _check_pages(store.get(path), context, path)
    return describe_context(context)


def _check_pages(data: bytes, context: HashContext, path: str) -> None:
    if len(data) != context.file_size:
        raise CorruptFileError(f"expected {context.file_size} bytes, found {len(data)}", path=path, offset=0)
    start = 0
    for number, size in enumerate(context.page_sizes.tolist()):
        found = crc32(data[start : start + size])
        if context.page_checksums is not None and found != context.page_checksums[number]:
            expected = context.page_checksums[number]
            raise CorruptFileError(f"page checksum is {found:08x}, expected {expected:08x}", path=path, offset=start)
        start += size


def describe_listing(data: bytes, path: str, limit: int) -> dict[str, Any]:
    """Show which data file of a bucket has which lookup file."""
    files = [asdict(f) for f in decode_listing(data, path).values()]
    return {"count": len(files), "files": files[:limit]}
