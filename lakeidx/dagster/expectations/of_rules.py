"""The rules' figures, and the hash index they rest on, judged by Great Expectations for its page.

Two frames: a row per figure (check, figure, value, least, most), and a row per hash of the index (partition, bucket, hash). A few
expectations hold for every row: the library's time goes with the number of expectations first, then of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from great_expectations import ExpectationSuite
from great_expectations import expectations as gxe
from numpy.typing import NDArray

from lakeidx.dagster.expectations.figures import figures_of
from lakeidx.dagster.expectations.library import row_batch
from lakeidx.errors import InternalError
from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import BucketId, RuleResult

_ROW = ["check", "figure"]


def _suite() -> Any:
    """Expect a value in every row, not below `least`, not above `most`; rows without a limit are not checked for it."""

    def not_above(lower: str, upper: str) -> Any:
        return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A=upper, column_B=lower, or_equal=True, ignore_row_if="either_value_is_missing"
        )

    expected = [
        gxe.ExpectColumnValuesToNotBeNull(column="value"),
        not_above("least", "value"),
        not_above("value", "most"),
    ]
    return ExpectationSuite(name="checks", expectations=expected)


def judge_rules(
    results: Sequence[RuleResult], limits: ChecksConfig, index: Mapping[BucketId, NDArray[np.int32]]
) -> list[Any]:
    """Validate the figures of rule results, and the hashes of an index; return the library's results.

    index    (partition, bucket) -> hashes that the rules have read
    errors   InternalError when an expectation could not be evaluated, or sees a fault that the rules do not, or none of theirs
    """
    hashes = _judge_hashes(index)
    rule = next((r for r in results if r.name == "hash_in_one_bucket"), None)
    if rule is not None and rule.passed and not all(r.success for r in hashes):
        raise InternalError("Great Expectations finds a hash in two buckets, the rule hash_in_one_bucket none")
    return [*_judge_figures(results, limits), *hashes]


def _judge_figures(results: Sequence[RuleResult], limits: ChecksConfig) -> list[Any]:
    """Validate the figures of rule results."""
    figures = {r.name: figures_of(r, limits) for r in results}
    rows = [(n, f.name, f.value, f.least, f.most) for n, of_rule in figures.items() for f in of_rule]
    if not rows:
        return []
    frame = pd.DataFrame(rows, columns=[*_ROW, "value", "least", "most"]).astype(
        dict.fromkeys(("value", "least", "most"), float)
    )
    outcome = row_batch(frame).validate(
        _suite(), result_format={"result_format": "COMPLETE", "unexpected_index_column_names": _ROW}
    )
    broken: set[tuple[str, str]] = set()
    for item in outcome.results:
        _refuse_unjudged(item, len(rows))
        broken |= {(row["check"], row["figure"]) for row in item.result["unexpected_index_list"] or []}
    expected = {(n, f.name) for n, of_rule in figures.items() for f in of_rule if not f.holds}
    if broken != expected:
        raise InternalError(f"Great Expectations finds {sorted(broken)} beyond limits, the rules {sorted(expected)}")
    return list(outcome.results)


def _judge_hashes(index: Mapping[BucketId, NDArray[np.int32]]) -> list[Any]:
    """Validate that no hash of the index is in two buckets of its partition; nothing when there are none."""
    by_partition: dict[bytes, list[BucketId]] = {}
    for bucket in index:
        by_partition.setdefault(bucket[0], []).append(bucket)
    frames = []
    for number, buckets in enumerate(by_partition.values()):
        for bucket in buckets:
            # A hash that is twice in one file is another rule's.
            hashes = np.unique(index[bucket])
            frames.append(pd.DataFrame({"partition": np.int32(number), "bucket": bucket[1], "hash": hashes}))
    if not any(len(frame) for frame in frames):
        return []
    frame = pd.concat(frames, ignore_index=True)
    once = gxe.ExpectCompoundColumnsToBeUnique(column_list=["partition", "hash"])
    result = row_batch(frame).validate(once, result_format="BASIC")
    _refuse_unjudged(result, len(frame))
    return [result]


def _refuse_unjudged(item: Any, rows: int) -> None:
    """Raise InternalError for an expectation that was not evaluated over all rows: no verdict is no pass."""
    kind = item.expectation_config.type
    raised = item.exception_info or {}
    each = [raised, *(i for i in raised.values() if isinstance(i, dict))]
    if any(i.get("raised_exception") for i in each):
        raise InternalError(f"{kind} failed: {raised}")
    if item.result["element_count"] != rows or item.success != (not item.result["unexpected_count"]):
        raise InternalError(f"{kind} looked at {item.result['element_count']} of {rows} rows")
