"""Rules over the files of a table: those it needs are there, those it does not need are few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakeidx.quality.result import RuleResult, Severity, bounded


def check_referenced_files(expected: Mapping[str, int | None], found: Mapping[str, int]) -> RuleResult:
    """Check that every file that a snapshot refers to exists with its size.

    expected   path -> size in bytes, None where the metadata does not say
    found      path -> size in bytes, from listing the store
    """
    missing = sorted(path for path in expected if path not in found)
    resized = sorted(p for p, size in expected.items() if size is not None and p in found and found[p] != size)
    return RuleResult(
        name="referenced_files_exist",
        passed=not missing and not resized,
        severity=Severity.ERROR,
        metrics={
            "files": len(expected),
            "bytes": sum(size or 0 for size in expected.values()),
            "files_missing": len(missing),
            "files_of_other_size": len(resized),
        },
        sample=bounded(
            [{"file": path, "fault": "missing", "size": expected[path]} for path in missing]
            + [{"file": p, "fault": "of_other_size", "size": expected[p], "found": found[p]} for p in resized]
        ),
        description="Every file that a snapshot refers to exists with its size.",
    )


def check_orphans(orphans: Mapping[str, int], *, max_files: int) -> RuleResult:
    """Check that unreferenced files stay below a limit.

    orphans    path -> bytes of files old enough not to belong to a running commit
    max_files  files up to which the rule passes
    """
    total = sum(orphans.values())
    largest_first: Iterable[tuple[str, int]] = sorted(orphans.items(), key=lambda item: (-item[1], item[0]))
    passed = len(orphans) <= max_files
    return RuleResult(
        name="orphans_below_limit",
        passed=passed,
        severity=Severity.WARN,
        metrics={"orphan_files": len(orphans), "orphan_bytes": total},
        sample=() if passed else bounded({"file": path, "bytes": size} for path, size in largest_first),
        description="Files that nothing refers to are fewer than the limit.",
    )
