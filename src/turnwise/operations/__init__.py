"""Running a guard: what its audit says it did or would have done, and who is told when something happens."""

from turnwise.operations.alert_rules import AlertSettings, Rule
from turnwise.operations.alerts import Alerts
from turnwise.operations.audit_report import AuditReport, Count, Flagged, WhatIf, report_audit
from turnwise.operations.receivers import Alert, DeliveryError, ReceiverSettings

__all__ = [
    "Alert",
    "AlertSettings",
    "Alerts",
    "AuditReport",
    "Count",
    "DeliveryError",
    "Flagged",
    "ReceiverSettings",
    "Rule",
    "WhatIf",
    "report_audit",
]
