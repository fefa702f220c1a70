"""Running a guard: what its audit says it did or would have done, and who is told when something happens."""

from turnwise.operations.audit_report import AuditReport, Count, Flagged, WhatIf, report_audit

__all__ = ["AuditReport", "Count", "Flagged", "WhatIf", "report_audit"]
