"""What the service counts, for Prometheus. Labels are names of our own and of the configuration."""

from __future__ import annotations

from typing import Any

from turnwise.guard import GuardrailStatus, Outcome, PipelineResult

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SCORES = tuple(step / 20 for step in range(1, 21))


class Metrics:
    """Counts requests and checks of one application; workers share what they count through a folder."""

    def __init__(self, folder: str | None = None) -> None:
        # The library reads PROMETHEUS_MULTIPROC_DIR, the same folder, when it is imported.
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._folder = folder
        own: Any = CollectorRegistry()
        self._registry = own

        def counter(name: str, told: str, *labels: str) -> Counter:
            return Counter(f"turnwise_{name}", told, labels, registry=own)

        def gauge(name: str, told: str, *labels: str) -> Gauge:
            return Gauge(f"turnwise_{name}", told, labels, registry=own, multiprocess_mode="livesum")

        def histogram(name: str, told: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"turnwise_{name}", told, labels, registry=own, buckets=buckets)

        self.requests = counter("http_requests", "Requests by route and status.", "route", "status", "tenant")
        self.in_flight = gauge("http_in_flight", "Requests under way.")
        self.body_bytes = gauge("http_body_bytes", "Bytes of bodies held.")
        unchecked = (
            "Requests that ended without a verdict: refused as busy, disconnected, out of time or stopping."
        )
        self.unchecked = counter("unchecked", unchecked, "why")
        self.checks = counter("checks", "Checks by kind of text and verdict.", "kind", "verdict", "tenant")
        self.seconds = histogram("check_seconds", "Seconds of a check.", _SECONDS, "kind", "tenant")
        self.blocks = counter("blocks", "Texts that a guardrail blocked.", "guardrail", "tenant")
        failed = "Texts that a guardrail, or the state store, failed to check, by the way that they went."
        self.failures = counter("failures", failed, "guardrail", "path", "tenant")
        not_read = "Texts in a language that a guardrail's observer does not read."
        self.not_read = counter("not_read", not_read, "guardrail", "tenant")
        scores = "Scores of a guardrail that has a threshold for them, such as drift."
        self.scores = histogram("scores", scores, _SCORES, "guardrail", "tenant")
        self.conversations = gauge("conversations", "Conversations held.", "tenant")
        self.evicted = counter("conversations_evicted", "Conversations that made room for others.", "tenant")
        self.reloads = counter("reloads", "Reloads by outcome.", "outcome")

    def tell(self, result: PipelineResult, tenant: str) -> None:
        for one in result.parts or (result,):
            kind = str(one.pipeline_type)
            self.checks.labels(kind, str(one.outcome), tenant).inc()
            self.seconds.labels(kind, tenant).observe(one.seconds)
            for name, detail in one.details.items():
                if detail.blocked and one.outcome is Outcome.BLOCKED:
                    self.blocks.labels(name, tenant).inc()
                if detail.status is GuardrailStatus.FAILED:
                    self.failures.labels(name, str(detail.path), tenant).inc()
                if detail.status is GuardrailStatus.NOT_READ:
                    self.not_read.labels(name, tenant).inc()
                if isinstance(score := (detail.data or {}).get("score"), float):
                    self.scores.labels(name, tenant).observe(score)

    def text(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        if self._folder is None:
            return bytes(generate_latest(self._registry))
        from prometheus_client.multiprocess import MultiProcessCollector

        registry: Any = CollectorRegistry()
        MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        return bytes(generate_latest(registry))
