"""Running a guard: what its audit says it did or would have done, and who is told when something happens."""

from turnwise.operations.alert_rules import AlertSettings, Rule
from turnwise.operations.alerts import Alerts
from turnwise.operations.audit_report import AuditReport, Count, Flagged, WhatIf, report_audit
from turnwise.operations.http_post import DeliveryError
from turnwise.operations.receivers import Alert, ReceiverSettings
from turnwise.operations.trace_scores import (
    TARGETS,
    Published,
    TraceScore,
    send_scores,
    trace_scores,
    write_scores,
)

__all__ = [
    "TARGETS",
    "Alert",
    "AlertSettings",
    "Alerts",
    "AuditReport",
    "Count",
    "DeliveryError",
    "Flagged",
    "Published",
    "ReceiverSettings",
    "Rule",
    "TraceScore",
    "WhatIf",
    "report_audit",
    "send_scores",
    "trace_scores",
    "write_scores",
]
