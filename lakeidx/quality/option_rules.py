"""Rule over a table's options: does it request upkeep that lakeidx leaves out, under names that exist?"""

from __future__ import annotations

from lakeidx.format.schema.feature_gate import gate_report
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.options.names import unknown_message
from lakeidx.quality.result import RuleResult, Severity, bounded


def check_options_followed(schema: TableSchema) -> RuleResult:
    """Expect every option that requests upkeep to be acted on, and every option to have a name that is known."""
    report = gate_report(schema)
    left_out = [{"option": key, "value": schema.options[key], "finding": rule.effect} for key, rule in report.left_out]
    unknown = [
        {"option": key, "value": schema.options[key], "finding": unknown_message(key, near)}
        for key, near in report.unknown.items()
    ]
    return RuleResult(
        name="options_followed",
        passed=not left_out and not unknown,
        severity=Severity.WARN,
        metrics={"options": len(schema.options), "options_left_out": len(left_out), "options_unknown": len(unknown)},
        sample=bounded([*left_out, *unknown]),
        description="Every option that enables maintenance is acted on, and every option name is known.",
    )
