"""An index type told of a commit, as the commit of a batch tells it."""

from __future__ import annotations

import pyarrow as pa

from lakeidx.key_index.locations import CommitInfo
from lakeidx.key_index.port import IndexContext, SharedState, TagTasks


def tell_index(state: SharedState, commit: CommitInfo, context: IndexContext) -> None:
    """Update locations in this process."""
    assert commit.batch is not None
    work = TagTasks(context.pool, lambda: context, "t")
    begun = state.begin_update(commit, commit.partitions, context, len(commit.batch), work)
    if begun is None:
        return
    update, shares = begun
    rows, goes = update.route(commit)
    parts = [(share, rows.filter(pa.array(goes == i))) for i, share in enumerate(shares)]
    stored = [update.store(share, [part]) for share, part in parts if part.num_rows]
    state.finish_update(update, stored, context, work)
