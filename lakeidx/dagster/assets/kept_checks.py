"""Checks that stay checks when Dagster copies them, as the folder of a component project does with each."""

from __future__ import annotations

import warnings
from typing import Any

import dagster as dg


class _KeptChecks(dg.AssetChecksDefinition):
    """Checks whose copies are checks.

    Copies of Dagster's own are assets, which it makes checks again at each load, with a warning about a parameter of its own; a
    filter of warnings cannot hide it, since Dagster imports components where it takes filters back.
    """

    @staticmethod
    def dagster_internal_init(**attributes: Any) -> _KeptChecks:
        # Without a value it is the same, and Dagster does not warn.
        attributes.pop("execution_type", None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.PreviewWarning)
            warnings.simplefilter("ignore", dg.BetaWarning)
            return _KeptChecks(**attributes)


def kept_checks(checks: dg.AssetChecksDefinition) -> dg.AssetChecksDefinition:
    """Return checks that stay checks in a component project."""
    return _KeptChecks.dagster_internal_init(**checks.get_attributes_dict())
