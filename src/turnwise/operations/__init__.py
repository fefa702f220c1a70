"""Running a guard: what its audit says it did, who is told of it, and traces received and given scores back."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnwise.operations.alert_rules import AlertSettings, Rule
from turnwise.operations.alerts import Alerts
from turnwise.operations.audit_report import KINDS, AuditReport, BlockCount, FlaggedChat, WhatIf, report_audit
from turnwise.operations.delivery import Alert, DeliveryError, ReceiverSettings
from turnwise.operations.trace_scores import (
    TARGETS,
    Published,
    TraceScore,
    send_scores,
    trace_scores,
    write_scores,
)

if TYPE_CHECKING:
    from turnwise.operations.otlp_receiver import OTLP_KEY, otlp_app, receive
    from turnwise.operations.spool import Spool, keep_storing, scan_received, store_finished

__all__ = [
    "KINDS",
    "OTLP_KEY",
    "TARGETS",
    "Alert",
    "AlertSettings",
    "Alerts",
    "AuditReport",
    "BlockCount",
    "DeliveryError",
    "FlaggedChat",
    "Published",
    "ReceiverSettings",
    "Rule",
    "Spool",
    "TraceScore",
    "WhatIf",
    "keep_storing",
    "otlp_app",
    "receive",
    "report_audit",
    "scan_received",
    "send_scores",
    "store_finished",
    "trace_scores",
    "write_scores",
]

_LAZY = {
    **dict.fromkeys(("OTLP_KEY", "otlp_app", "receive"), "otlp_receiver"),
    **dict.fromkeys(("Spool", "keep_storing", "scan_received", "store_finished"), "spool"),
}
"""What scans and receives is loaded when asked for."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"turnwise.operations.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
