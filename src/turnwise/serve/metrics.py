"""What the service counts, for Prometheus. Labels are names of our own and of the configuration."""

from __future__ import annotations

from typing import Any

from turnwise.guard import Outcome, PipelineResult, Status

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SCORES = tuple(step / 20 for step in range(1, 21))


class Metrics:
    """Counts requests and checks of one application.

    Workers of a service share what they count through `folder`, which must be the value of
    ``PROMETHEUS_MULTIPROC_DIR`` before the library is imported; it is None for one worker.
    """

    def __init__(self, folder: str | None = None) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._folder = folder
        own: Any = CollectorRegistry()
        self._registry = own
        self.requests = Counter(
            "turnwise_http_requests", "Requests by route and status.", ["route", "status", "tenant"], registry=own
        )
        self.in_flight = Gauge(
            "turnwise_http_in_flight", "Requests under way.", registry=own, multiprocess_mode="livesum"
        )
        self.body_bytes = Gauge(
            "turnwise_http_body_bytes", "Bytes of bodies held.", registry=own, multiprocess_mode="livesum"
        )
        self.unchecked = Counter(
            "turnwise_unchecked",
            "Requests that ended without a verdict: refused as busy, disconnected, out of time or stopping.",
            ["why"],
            registry=own,
        )
        self.checks = Counter(
            "turnwise_checks", "Checks by kind of text and verdict.", ["kind", "verdict", "tenant"], registry=own
        )
        self.seconds = Histogram(
            "turnwise_check_seconds", "Seconds of a check.", ["kind", "tenant"], registry=own, buckets=_SECONDS
        )
        self.blocks = Counter(
            "turnwise_blocks", "Texts that a guardrail blocked.", ["guardrail", "tenant"], registry=own
        )
        self.failures = Counter(
            "turnwise_failures",
            "Texts that a guardrail, or the state store, failed to check, by the way that they went.",
            ["guardrail", "path", "tenant"],
            registry=own,
        )
        self.not_read = Counter(
            "turnwise_not_read",
            "Texts in a language that a guardrail's observer does not read.",
            ["guardrail", "tenant"],
            registry=own,
        )
        self.scores = Histogram(
            "turnwise_scores",
            "Scores of a guardrail that has a threshold for them, such as drift.",
            ["guardrail", "tenant"],
            registry=own,
            buckets=_SCORES,
        )
        self.conversations = Gauge(
            "turnwise_conversations", "Conversations held.", ["tenant"], registry=own, multiprocess_mode="livesum"
        )
        self.evicted = Counter(
            "turnwise_conversations_evicted", "Conversations that made room for others.", ["tenant"], registry=own
        )
        self.reloads = Counter("turnwise_reloads", "Reloads by outcome.", ["outcome"], registry=own)

    def tell(self, result: PipelineResult, tenant: str) -> None:
        """Count a check of a tenant."""
        for one in result.parts or (result,):
            kind = str(one.pipeline_type)
            self.checks.labels(kind, str(one.outcome), tenant).inc()
            self.seconds.labels(kind, tenant).observe(one.seconds)
            for name, detail in one.details.items():
                if detail.blocked and one.outcome is Outcome.BLOCKED:
                    self.blocks.labels(name, tenant).inc()
                if detail.status is Status.FAILED:
                    self.failures.labels(name, str(detail.path), tenant).inc()
                if detail.status is Status.NOT_READ:
                    self.not_read.labels(name, tenant).inc()
                if isinstance(score := (detail.data or {}).get("score"), float):
                    self.scores.labels(name, tenant).observe(score)

    def text(self) -> bytes:
        """All counts of all workers, in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        if self._folder is None:
            return bytes(generate_latest(self._registry))
        from prometheus_client.multiprocess import MultiProcessCollector

        registry: Any = CollectorRegistry()
        MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        return bytes(generate_latest(registry))
