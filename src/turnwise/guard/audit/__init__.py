"""The audit: every check as an event, written off the hot path, without personal data unless it is asked for."""

from turnwise.guard.audit.events import AuditEvent, AuditSink, audited
from turnwise.guard.audit.export import export_csv
from turnwise.guard.audit.reading import AuditAnswer, AuditQuestion, read_audit
from turnwise.guard.audit.settings import AuditSettings
from turnwise.guard.audit.writer import AuditStatus, AuditWriter

__all__ = [
    "AuditAnswer",
    "AuditEvent",
    "AuditQuestion",
    "AuditSettings",
    "AuditSink",
    "AuditStatus",
    "AuditWriter",
    "audited",
    "export_csv",
    "read_audit",
]
