"""The audit: an event for each check, written off the hot path, without personal data unless that is asked for."""

from turnwise.guard.audit.chain import ChainHead, Damage, Verification
from turnwise.guard.audit.reader import AuditAnswer, AuditQuestion, export_csv, read_audit, verify_audit
from turnwise.guard.audit.record import AuditEvent, AuditSink
from turnwise.guard.audit.settings import AuditSettings
from turnwise.guard.audit.sinks import Erased
from turnwise.guard.audit.writer import AuditStatus, AuditWriter

__all__ = [
    "AuditAnswer",
    "AuditEvent",
    "AuditQuestion",
    "AuditSettings",
    "AuditSink",
    "AuditStatus",
    "AuditWriter",
    "ChainHead",
    "Damage",
    "Erased",
    "Verification",
    "export_csv",
    "read_audit",
    "verify_audit",
]
