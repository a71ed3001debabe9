"""The keys of a table in a state, and the state's directory."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from lakeidx.key_index.port import IndexContext
from lakeidx.key_index.state.load import Share
from lakeidx.storage.base import join

_STATE_DIR = "state"


@dataclass(frozen=True, slots=True)
class StateScope:
    """The keys of a table in a state.

    is_global  a key lives in one partition at a time
    share      the part of the keys that is this state's
    """

    is_global: bool
    share: Share

    def text(self, context: IndexContext) -> str:
        """Name the scope; states of different scopes never replace each other."""
        kind = "global" if self.is_global else "partition"
        return f"{kind} {self.share.id}/{self.share.of} {context.options.index_partition_regex}"

    def folder(self, context: IndexContext) -> str:
        """Return the folder of the state's files."""
        return join(context.index_dir, _STATE_DIR, xxhash.xxh64_hexdigest(self.text(context).encode()))
