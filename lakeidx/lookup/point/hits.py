"""What the files of one bucket answer: rows of lookup files, still encoded, and rows of data files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.lookup.listing import StoredLookup
from lakeidx.lookup.value_rows import Processor
from lakeidx.lookup.versions import Versions


def gives_rows(stored: StoredLookup, deleted: npt.NDArray[np.int64] | None) -> bool:
    """Return False when a file's values have no rows, or it is unknown which of them a deletion vector has deleted."""
    return stored.processor.has_rows and (deleted is None or stored.processor is Processor.POSITION_AND_VALUE)


@dataclass
class Hits:
    """Rows from lookup files, not decoded yet: of one schema and one kind of value."""

    asked: list[npt.NDArray[np.int64]] = field(default_factory=list)
    rows: list[RowBytes] = field(default_factory=list)
    sequences: list[npt.NDArray[np.int64]] = field(default_factory=list)
    kinds: list[npt.NDArray[np.int8]] = field(default_factory=list)

    def add(self, other: Hits) -> None:
        """Add another bucket's rows to these."""
        self.asked += other.asked
        self.rows += other.rows
        self.sequences += other.sequences
        self.kinds += other.kinds


@dataclass
class Answers:
    """Results of one bucket.

    hits                       by schema and kind of value
    found                      rows of data files
    lookup_files, data_files   files that were asked, and read
    """

    hits: dict[tuple[int, Processor], Hits] = field(default_factory=dict)
    found: list[Versions] = field(default_factory=list)
    lookup_files: int = 0
    data_files: int = 0


def joined_hits(answers: Iterable[Answers]) -> dict[tuple[int, Processor], Hits]:
    """Put the rows of lookup files together, for one decoding of each schema and kind."""
    joined: dict[tuple[int, Processor], Hits] = {}
    for answer in answers:
        for key, hits in answer.hits.items():
            joined.setdefault(key, Hits()).add(hits)
    return joined
