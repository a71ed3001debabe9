"""Great Expectations and the rules: one verdict, whatever the figure."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lakeidx.pipeline_file.sections import ChecksConfig
from lakeidx.quality.result import RuleResult, Severity

pytestmark = pytest.mark.dagster

_SOUND: dict[str, dict[str, float]] = {
    "batch_rows_accounted": {
        "ingested": 10,
        "inserted": 6,
        "updated": 2,
        "deleted": 1,
        "rejected": 1,
        "rows_unaccounted": 0,
    },
    "staged_rows_committed": {"staged": 9, "committed": 7, "superseded": 2, "rows_lost": 0, "rows_too_many": 0},
    "stale_hashes": {"stale_hashes": 1, "hashes": 1000},
    "bucket_skew": {"largest_skew": 1.5},
    "hash_in_one_bucket": {"hashes_in_several_buckets": 0},
}
_BROKEN = [
    ("batch_rows_accounted", "ingested", 11, "ingested = accounted is not met (11, 10)"),
    ("batch_rows_accounted", "rows_unaccounted", 1, "rows_unaccounted = 1 (at most 0)"),
    ("staged_rows_committed", "staged", 8, "staged = committed_or_superseded is not met (8, 9)"),
    ("stale_hashes", "stale_hashes", 900, "stale_share = 0.9 (at most "),
    ("bucket_skew", "largest_skew", math.inf, "largest_skew = inf (at most "),
    ("bucket_skew", "largest_skew", -1.0, "largest_skew = -1.0 (at least 0 and at most "),
    ("bucket_skew", "largest_skew", math.nan, "largest_skew = nan (at most "),
    ("hash_in_one_bucket", "hashes_in_several_buckets", 3, "hashes_in_several_buckets = 3 (at most 0)"),
]


def results(**changed: RuleResult) -> list[RuleResult]:
    made = {
        name: RuleResult(name=name, passed=True, severity=Severity.ERROR, metrics=metrics, description="what holds")
        for name, metrics in _SOUND.items()
    }
    return list((made | changed).values())


def test_sound_figures_pass() -> None:
    from lakeidx.dagster.expectations.verdicts import judge

    verdicts = judge(results(), ChecksConfig())
    assert list(verdicts) == list(_SOUND)
    assert all(v.passed and not v.failed for v in verdicts.values())
    assert [e["figure"] for e in verdicts["batch_rows_accounted"].expectations] == [
        "ingested = accounted", "inserted", "updated", "upserted", "deleted", "rejected", "rows_unaccounted",
    ]  # fmt: skip
    assert judge([], ChecksConfig()) == {}


@pytest.mark.parametrize(("rule", "metric", "value", "says"), _BROKEN)
def test_one_figure_beyond_its_limit_fails_its_check_alone(rule: str, metric: str, value: float, says: str) -> None:
    from lakeidx.dagster.expectations.verdicts import judge

    (sound,) = [r for r in results() if r.name == rule]
    verdicts = judge(results(**{rule: replace(sound, metrics={**sound.metrics, metric: value})}), ChecksConfig())
    assert [name for name, v in verdicts.items() if not v.passed] == [rule]
    (failed,) = verdicts[rule].failed
    assert failed.startswith(says)


def test_a_rule_without_limits_is_refused() -> None:
    from lakeidx.dagster.expectations.verdicts import judge

    with pytest.raises(KeyError, match="rule unheard_of has no figure with a limit"):
        judge([replace(results()[0], name="unheard_of")], ChecksConfig())
