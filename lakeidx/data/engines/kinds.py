"""Row kinds by their code in ``_VALUE_KIND``.

source   org.apache.paimon.types.RowKind, release 1.4.2
"""

from __future__ import annotations

INSERT = 0
UPDATE_BEFORE = 1
UPDATE_AFTER = 2
DELETE = 3
#: Short names in the order of their codes, as column ``_kind`` and option ``rowkind.field`` use them.
SHORT_NAMES = ("+I", "-U", "+U", "-D")


def is_retract(kind: int) -> bool:
    """True for -U and -D."""
    return kind in (UPDATE_BEFORE, DELETE)
