"""OpenTelemetry: a span per check, and an event for each guardrail's verdict. Needs ``turnwise[opentelemetry]``.

The names of attributes are those of the semantic conventions for generative AI, where these have one
(https://github.com/open-telemetry/semantic-conventions-genai, in development); others begin with ``turnwise.``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike, fspath
from time import time_ns
from typing import Final, Literal

try:
    from opentelemetry._logs import LoggerProvider, LogRecord, SeverityNumber, get_logger
    from opentelemetry.trace import Span, StatusCode, TracerProvider, get_tracer, set_span_in_context
    from opentelemetry.trace import Status as SpanStatus
    from opentelemetry.util.types import AttributeValue
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("opentelemetry", error) from error

from turnwise._version import __version__
from turnwise.errors import GuardError
from turnwise.guard.audit import AuditEvent, AuditSettings, AuditSink, AuditStatus
from turnwise.guard.audit.chain import Wanted
from turnwise.guard.audit.record import Redact, Redactor, private_name, unchanged
from turnwise.guard.audit.sinks import Erased
from turnwise.guard.results import Detail, GuardrailStatus

EVENT: Final = "gen_ai.evaluation.result"
"""Name of the event that tells what a guardrail said."""

CONVERSATION: Final = "gen_ai.conversation.id"

_SCOPE = "turnwise.guard"
_LOG = logging.getLogger(_SCOPE)
_LONGEST = 256
"""Characters of a name that a model or a caller made up."""

_SECOND = 1_000_000_000

Texts = Literal["none", "redacted", "raw"]


class OpenTelemetryAudit:
    """An audit that tells OpenTelemetry of every check: ``GuardrailPipeline(config, audit=OpenTelemetryAudit())``.

    A check is a span ``turnwise.check input`` (or ``output``, ``tool_call``, ``tool_result``) within the span that
    is current where the check was asked for. The verdict of each guardrail that ran or failed is an event
    ``gen_ai.evaluation.result`` in that span, sent as a log record: its name, score and label. A check with a
    guardrail that failed is a span with the status ERROR, whether the text passed or not. Without this audit
    nothing of OpenTelemetry is imported or called.

    Args:
        also: another audit that is told of every check, or the path of a file of JSON lines; closed with this one.
        texts: whether spans have the text as it may go on: ``none``; ``redacted``, with personal data and secrets
            replaced; or ``raw``. Reasons are redacted except with ``raw``; with ``none`` those of guardrails that
            failed are left out, since the message of an error may hold anything. Ids of conversations and calls
            are as the audit has them: hashed where they are personal, except with ``raw``.
        tracer_provider: makes the spans; by default the global one.
        logger_provider: takes the events; by default the global one.

    Raises:
        GuardError: `texts` is none of these, or the file of `also` can't be written.

    >>> from turnwise import GuardrailPipeline
    >>> pipeline = GuardrailPipeline.from_preset("basic", audit=OpenTelemetryAudit())
    >>> pipeline.check_input("Hello!").blocked
    False
    """

    def __init__(
        self,
        *,
        also: AuditSink | str | PathLike[str] | None = None,
        texts: Texts = "none",
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        if texts not in ("none", "redacted", "raw"):
            raise GuardError(f"texts is {texts!r}; use none, redacted or raw")
        self._also = AuditSettings(fspath(also)).open() if isinstance(also, str | PathLike) else also
        self._texts = texts
        self._redact: Redact = unchanged if texts == "raw" else Redactor.of(("pii", "secrets"))
        self._tracer = get_tracer(_SCOPE, __version__, tracer_provider)
        self._logger = get_logger(_SCOPE, __version__, logger_provider)

    @property
    def status(self) -> AuditStatus | None:
        """Status of the other audit; None where there is none that tells."""
        return getattr(self._also, "status", None)

    def write(self, event: AuditEvent) -> None:
        """Tell of a check; what goes wrong here is logged, and stops no check."""
        try:
            self._tell(event)
        except Exception as error:  # noqa: BLE001 - providers and exporters are foreign code
            _LOG.warning("OpenTelemetry could not be told of a check: %s", type(error).__name__)
        if self._also is not None:
            self._also.write(event)

    def erase(self, wanted: Wanted, why: str) -> Erased:
        """Erase personal parts of events in the other audit; what OpenTelemetry was told stays where it is."""
        erase = getattr(self._also, "erase", None)
        if erase is None:
            return Erased({}, () if self._also is None else (f"a {type(self._also).__name__}, which can't erase",))
        erased: Erased = erase(wanted, why)
        return erased

    def close(self) -> None:
        """Close the other audit. The providers belong to their owner."""
        if self._also is not None:
            self._also.close()

    def _tell(self, event: AuditEvent) -> None:
        end = time_ns()
        span = self._tracer.start_span(
            f"turnwise.check {event.result.pipeline_type}", start_time=end - int(event.result.seconds * _SECOND)
        )
        try:
            if span.is_recording():
                span.set_attributes(dict(self._about(event)))
                self._set_status(span, event)
            context = set_span_in_context(span)
            for name, detail in event.details:
                if detail.status is not GuardrailStatus.SKIPPED:
                    failed = detail.status is GuardrailStatus.FAILED
                    self._logger.emit(
                        LogRecord(
                            timestamp=end,
                            context=context,
                            severity_number=SeverityNumber.WARN if failed else SeverityNumber.INFO,
                            attributes=dict(self._said(event, name, detail)),
                            event_name=EVENT,
                        )
                    )
        finally:
            span.end(end)

    def _about(self, event: AuditEvent) -> Iterator[tuple[str, AttributeValue]]:
        result = event.result
        yield CONVERSATION, self._name(result.conversation_id)
        yield "turnwise.pipeline", event.pipeline
        yield "turnwise.kind", str(result.pipeline_type)
        yield "turnwise.outcome", str(result.outcome)
        yield "turnwise.blocked", result.blocked
        yield "turnwise.rate_limited", result.rate_limited
        if result.turn_number is not None:
            yield "turnwise.turn", result.turn_number
        if result.call_id is not None:
            yield "gen_ai.tool.name", self._redact((result.tool or "")[:_LONGEST])
            yield "gen_ai.tool.call.id", self._name(result.call_id)
        if result.stance is not None:
            yield "turnwise.stance", str(result.stance.mode)
        for what in ("blocked", "warned"):
            names = [name for name, detail in event.details if getattr(detail, what)]
            if names:
                yield f"turnwise.{what}_by", names
        if self._texts != "none":
            yield "turnwise.text", self._redact(result.text)

    def _name(self, name: str) -> str:
        """An id as the audit has it: hashed where it is personal."""
        return private_name(name, self._redact)[:_LONGEST]

    @staticmethod
    def _set_status(span: Span, event: AuditEvent) -> None:
        not_read = [name for name, detail in event.details if detail.status is GuardrailStatus.NOT_READ]
        if not_read:
            span.set_attribute("turnwise.not_read", not_read)
        failed = [name for name, detail in event.details if detail.status is GuardrailStatus.FAILED]
        if failed:
            span.set_attribute("turnwise.failed", failed)
            span.set_status(SpanStatus(StatusCode.ERROR, f"guardrails failed: {', '.join(failed)}"))

    def _said(self, event: AuditEvent, name: str, detail: Detail) -> Iterator[tuple[str, AttributeValue]]:
        yield "gen_ai.evaluation.name", name
        yield CONVERSATION, self._name(event.result.conversation_id)
        yield "gen_ai.evaluation.score.label", label_of(detail)
        failed = detail.status is GuardrailStatus.FAILED
        if failed:
            yield "error.type", _error_type(detail.reason)
        elif detail.status is not GuardrailStatus.NOT_READ:
            yield "gen_ai.evaluation.score.value", float(detail.confidence)
        # The message of an error may hold anything, a text under check as well.
        if detail.reason and (self._texts != "none" or not failed):
            yield "gen_ai.evaluation.explanation", self._redact(detail.reason)
        if event.result.turn_number is not None:
            yield "turnwise.turn", event.result.turn_number
        yield "turnwise.kind", str(event.result.pipeline_type)
        yield "turnwise.blocked", detail.blocked


def label_of(detail: Detail) -> str:
    """A guardrail's verdict in a word: ``clean``, ``failed``, ``not_read``, or what was done."""
    if detail.status is GuardrailStatus.FAILED:
        return "failed"
    if detail.status is GuardrailStatus.NOT_READ and detail.action is None:
        return "not_read"
    return str(detail.action) if detail.action is not None else "clean"


def _error_type(reason: str) -> str:
    """The type of an error from what is told of it, ``failed: TimeoutError: no answer``."""
    with suppress(ValueError):
        _, kind, _ = reason.split(": ", 2)
        if kind.isidentifier():
            return kind
    return "_OTHER"
