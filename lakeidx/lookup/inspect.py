"""What ``lakeidx inspect`` says of a lookup file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lakeidx.codec.checksum import crc32
from lakeidx.errors import CorruptFileError
from lakeidx.format.hash_store import CONTEXT_SUFFIX, decode_context, describe_context
from lakeidx.format.sst import describe_sst
from lakeidx.lookup.hash_writer import context_path
from lakeidx.lookup.mapped_file import map_file


def inspect_lookup_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Decode a sort store file, or a hash store file by its context (either of the two may be named).

    Needs no key types: blocks and pages are checked against their checksums, the order of keys is not.

    returns  JSON values: "kind", sizes, footer and blocks, or the context
    errors   NotFoundError; CorruptFileError for damage, or when the file is neither
    """
    path = Path(path)
    if path.name.endswith(CONTEXT_SUFFIX):
        path = path.with_name(path.name.removesuffix(CONTEXT_SUFFIX))
    context_file = context_path(path)
    if not context_file.exists():
        return {"path": str(path), **describe_sst(map_file(path).data, path=str(path))}
    context = decode_context(map_file(context_file).tobytes(), path=str(context_file))
    data = map_file(path, expected_size=context.file_size).data
    start = 0
    for number, size in enumerate(context.page_sizes.tolist()):
        found = crc32(data[start : start + size])
        if context.page_checksums is not None and found != context.page_checksums[number]:
            raise CorruptFileError(
                f"page checksum is {found:08x}, the context says {context.page_checksums[number]:08x}",
                path=str(path),
                offset=start,
            )
        start += size
    return {"path": str(path), **describe_context(context)}
