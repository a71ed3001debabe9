"""Row kinds by their code in ``_VALUE_KIND``.

source   org.apache.paimon.types.RowKind, release 1.4.2
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import numpy.typing as npt

Kinds = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)
#: Short names in the order of their codes, as column ``_kind`` and option ``rowkind.field`` use them.
SHORT_NAMES = ("+I", "-U", "+U", "-D")


@overload
def is_retract(kind: int) -> bool: ...
@overload
def is_retract(kind: Kinds) -> Bools: ...
def is_retract(kind: int | Kinds) -> bool | Bools:
    """Return whether a kind retracts (-U or -D), for one code or int8[n] codes."""
    return (kind == UPDATE_BEFORE) | (kind == DELETE)
