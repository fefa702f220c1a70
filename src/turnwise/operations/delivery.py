"""Where alerts and scores go: a POST that ends within its time, a webhook, a chat, and files that a SIEM reads."""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from turnwise._version import __version__
from turnwise.errors import GuardError, TurnwiseError

_NAMED: Final = 10
"""Findings that a message for people names."""

_ANSWER: Final = 65_536
"""Bytes of an answer that are read."""


class DeliveryError(TurnwiseError):
    """An alert or score could not be delivered; the message says why."""


def is_address(url: str) -> bool:
    """Whether a URL is one that can be posted to: http or https, with a host and no name or password."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username


def post(name: str, url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> tuple[int, bytes]:
    """Post JSON, without proxies or redirects, and return status and body; DeliveryError for no answer in time."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout)
    # A receiver that sends a byte now and then never runs into the time-out of the socket.
    end = threading.Timer(timeout, _cut, (connection,))
    end.daemon = True
    end.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        about = {"Content-Type": "application/json", "User-Agent": f"turnwise/{__version__}", **headers}
        connection.request("POST", path, body, about)
        answer = connection.getresponse()
        return answer.status, answer.read(_ANSWER)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DeliveryError(f"{name} does not answer: {type(error).__name__}") from error
    finally:
        end.cancel()
        connection.close()


def _cut(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert, with the events that it is about.

    Args:
        alert_id: the same where it is sent again.
        rule: the rule that made it.
        audit: where the events are.
        time: when the last of its events was, ISO 8601.
        headline: what happened, in a line.
        findings: the events, without what is not asked for.
        missed: alerts to the same receiver that were given up since the last one that arrived.
    """

    alert_id: str
    rule: str
    audit: str
    time: str
    headline: str
    findings: tuple[dict[str, Any], ...]
    missed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return what a webhook gets."""
        return {
            "v": 1, "id": self.alert_id, "rule": self.rule, "audit": self.audit, "time": self.time,
            "headline": self.headline, "count": len(self.findings), "missed": self.missed,
            "findings": list(self.findings),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """A receiver of alerts.

    Args:
        name: what rules call it.
        kind: ``webhook`` (JSON, signed as Standard Webhooks say: https://www.standardwebhooks.com), ``slack``
            (``{"text": ...}``, which Mattermost and others take too), ``cef`` (ArcSight's lines) or ``ecs``
            (JSON lines of the Elastic Common Schema), the last two appended to a file.
        url: of a webhook or a chat.
        url_env: environment variable that holds it, where the address is a secret.
        path: of a file.
        secret_env: environment variable with the secret that signs a webhook: ``whsec_`` and base64, or any text.
        timeout: seconds that a delivery may take, above 0, at most 60.
        retry_seconds: for so long an alert is tried again, at longer and longer intervals; then it is given up.
        queue: alerts that may wait, from 1; then the oldest is given up.
    """

    name: str
    kind: Literal["webhook", "slack", "cef", "ecs"]
    url: str | None = None
    url_env: str | None = None
    path: str | None = None
    secret_env: str | None = None
    timeout: float = 10.0
    retry_seconds: float = 86_400.0
    queue: int = 10_000

    def __post_init__(self) -> None:
        web = self.kind in ("webhook", "slack")
        if web and (self.url is None) == (self.url_env is None):
            raise GuardError(f"receiver {self.name}: give url, or url_env with the variable that holds it")
        if not web and not self.path:
            raise GuardError(f"receiver {self.name}: give the path of the file that {self.kind} lines go to")
        if not 0.0 < self.timeout <= 60.0 or self.retry_seconds < 0.0 or self.queue < 1:
            raise GuardError(
                f"receiver {self.name}: timeout is above 0 and at most 60 seconds, retry_seconds at least 0, "
                "queue at least 1"
            )
        if web:
            self.address()
        if self.secret_env is not None:
            self.secret()

    def address(self) -> str:
        """The URL; GuardError where there is none."""
        url = self.url if self.url is not None else os.environ.get(self.url_env or "", "")
        if not is_address(url):
            where = self.url_env or "url"
            raise GuardError(f"receiver {self.name}: {where} must be like https://example.com/alerts")
        return url

    def secret(self) -> bytes:
        """The key of the signature; GuardError where the variable is empty."""
        text = os.environ.get(self.secret_env or "", "")
        if not text:
            raise GuardError(f"receiver {self.name}: set the environment variable {self.secret_env} to the secret")
        if text.startswith("whsec_"):
            with suppress(ValueError):
                return base64.b64decode(text.removeprefix("whsec_"), validate=True)
        return text.encode()

    def deliver(self, alert: Alert, now: datetime) -> None:
        """Deliver an alert.

        Raises:
            DeliveryError: it was not taken within `timeout` seconds.
        """
        if self.kind in ("cef", "ecs"):
            lines = _cef(alert) if self.kind == "cef" else _ecs(alert)
            self._append("".join(f"{line}\n" for line in lines))
        elif self.kind == "slack":
            self._post(json.dumps({"text": _for_people(alert)}).encode(), {})
        else:
            body = json.dumps(alert.to_dict(), allow_nan=False).encode()
            headers = {"webhook-id": alert.alert_id, "webhook-timestamp": str(int(now.timestamp()))}
            if self.secret_env is not None:
                signed = f"{alert.alert_id}.{int(now.timestamp())}.".encode() + body
                digest = hmac.digest(self.secret(), signed, "sha256")
                headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
            self._post(body, headers)

    def _append(self, text: str) -> None:
        assert self.path is not None
        try:
            file = os.open(Path(self.path).expanduser(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, text.encode("utf-8", "backslashreplace"))
            finally:
                os.close(file)
        except OSError as error:
            raise DeliveryError(f"{self.path} can't be written: {error.strerror}") from error

    def _post(self, body: bytes, headers: dict[str, str]) -> None:
        status, _ = post(self.name, self.address(), body, headers, self.timeout)
        if not 200 <= status < 300:
            raise DeliveryError(f"{self.name} answers with status {status}")


def _for_people(alert: Alert) -> str:
    """Lines of a chat; what could be a link, a mention or mark-up of somebody else's is escaped."""
    lines = [f"*{_plain(alert.headline)}*"]
    for one in alert.findings[:_NAMED]:
        where = f"turn {one.get('turn')} of {one.get('conversation_id')}"
        lines.append(_plain(f"• {where}: {'; '.join(one.get('reasons', ()))}"))
    if len(alert.findings) > _NAMED:
        lines.append(f"and {len(alert.findings) - _NAMED} more")
    if alert.missed:
        lines.append(f"{alert.missed} earlier alerts did not arrive")
    return "\n".join(lines)


def _plain(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")


def _cef(alert: Alert) -> list[str]:
    """A line of ArcSight's Common Event Format for each finding."""
    lines = []
    for one in alert.findings:
        severity = 8 if one.get("blocked") else 5
        parts = ("turnwise", "guard", __version__, alert.rule, alert.headline, str(severity))
        head = "|".join(map(_cef_head, parts))
        when = int(datetime.fromisoformat(one["time"]).timestamp() * 1000)
        fields = {
            "rt": when, "externalId": alert.alert_id, "act": "blocked" if one.get("blocked") else "logged",
            "reason": "; ".join(one.get("reasons", ())), "suser": one.get("person") or "",
            "cs1Label": "conversation", "cs1": one.get("conversation_id") or "",
            "cs2Label": "guardrails", "cs2": ",".join(one.get("guardrails", ())),
            "cs3Label": "tenant", "cs3": one.get("tenant") or "", "cn1Label": "turn", "cn1": one.get("turn") or 0,
        }  # fmt: skip
        told = " ".join(f"{name}={_cef_value(str(value))}" for name, value in fields.items() if value != "")
        lines.append(f"CEF:0|{head}|{told}")
    return lines


def _cef_head(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _cef_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace("=", "\\=").replace("\r", "\\r").replace("\n", "\\n")


def _ecs(alert: Alert) -> list[str]:
    """A line of the Elastic Common Schema for each finding."""
    lines = []
    for one in alert.findings:
        record: dict[str, Any] = {
            "@timestamp": one["time"],
            "ecs": {"version": "8.11.0"},
            "event": {
                "kind": "alert", "category": ["intrusion_detection"], "type": ["info"], "id": alert.alert_id,
                "action": "blocked" if one.get("blocked") else "logged",
                "reason": "; ".join(one.get("reasons", ())),
            },
            "rule": {"name": alert.rule},
            "message": alert.headline,
            "observer": {"vendor": "turnwise", "product": "guard", "version": __version__},
            "user": {"name": one.get("person") or ""},
            "labels": {
                "conversation": one.get("conversation_id") or "", "tenant": one.get("tenant") or "",
                "guardrails": ",".join(one.get("guardrails", ())), "turn": str(one.get("turn") or ""),
            },
        }  # fmt: skip
        lines.append(json.dumps(record, allow_nan=False))
    return lines
