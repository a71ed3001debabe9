"""JSON objects that lakeidx keeps for itself, sealed with a checksum: a last key ``crc32`` over the text as it was without it.

Any reader of JSON reads them; a text without the key (of an older release) is taken as it is.
"""

from __future__ import annotations

import re

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError

_SEAL = re.compile(rb',"crc32":([0-9]{1,10})\}\Z')


def seal(text: bytes) -> bytes:
    """Add the checksum to the text of a JSON object that has at least one key; nothing may follow its closing brace."""
    return b'%s,"crc32":%d}' % (text[:-1], crc32(text))


def unseal(data: bytes, path: str | None = None) -> bytes:
    """Return the text that was sealed, or the data as they are when they have no seal.

    errors   CorruptFileError when the text is not the one that was sealed
    """
    found = _SEAL.search(data)
    if found is None:
        return data
    text = data[: found.start()] + b"}"
    if crc32(text) != int(found[1]):
        raise CorruptFileError(
            f"the checksum is {crc32(text)}, the file says {int(found[1])}", path=path, offset=found.start()
        )
    return text
