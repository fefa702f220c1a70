"""Requests as one batch of a provider: written, uploaded, submitted, awaited, and collected into the journal.

The state stands in a file that is written anew after each step, so that a kill at any point loses nothing: the
same command goes on where it stopped. Between submission and the note of its number lies one gap, so a batch
carries a mark, noted before it is submitted, by which it is found again.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from turnwise.clock import Clock, utc_now
from turnwise.conversation import Turn
from turnwise.errors import BudgetError, ObserverError, UsageError
from turnwise.observers.llm.chat import ChatReply
from turnwise.observers.llm.endpoint import Endpoint
from turnwise.observers.llm.faults import PASSING, ChatError
from turnwise.observers.llm.openai_client import OpenAIClient
from turnwise.observers.llm.prompt import fresh_nonce, shown_texts
from turnwise.observers.protocol import Context, Request
from turnwise.scoring import Reply, ReplyJournal

POLL_S = 30.0
"""Seconds between two looks at a batch."""

_MOST_BYTES = 512 << 20
_TIMEOUT_S = 900.0
_LOST_LOOKS = 20
"""Looks in a row that may fail before the command gives up; the batch goes on."""

_MARK = "turnwise"
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})

Asked = tuple[Sequence[Request], Sequence[Turn], int, Context]
"""Requests of one side for principles of a turn, with the turns, its number and what may be seen."""


@dataclass(slots=True)
class _BatchState:
    """What is known of a batch: `lines` has key, repeat and nonce of each request by its number in the file."""

    spec: str
    base_url: str
    mark: str
    lines: dict[str, tuple[str, int, str]]
    file: str | None = None
    submitting: bool = False
    batch: str | None = None


@dataclass(frozen=True, slots=True)
class BatchDone:
    """What a batch gave: requests that it had, replies that were kept, and their cost in US dollars."""

    requests: int
    replies: int
    cost_usd: float | None


@dataclass(slots=True)
class Batch:
    """One batch, whose state is kept at `path`, and its requests beside it."""

    endpoint: Endpoint
    path: Path
    journal: ReplyJournal
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    wait: Callable[[float], None] = time.sleep
    clock: Clock = utc_now
    tell: Callable[[str], None] = lambda line: None

    def run(self, asked: Iterable[Asked]) -> BatchDone:
        """Continue the batch at `path`, or make one of all requests without a stored reply; then collect it.

        Raises:
            UsageError: the file is the state of another model's batch.
            BudgetError: the batch may cost more than the budget.
            ObserverError: the provider refuses it, or can't be reached; the same command continues.
        """
        client = OpenAIClient(
            replace(self.endpoint, settings=replace(self.endpoint.settings, timeout=_TIMEOUT_S)),
            self.endpoint.key(self.environ),
            self.clock,
            _MOST_BYTES,
        )
        state = self._read() if self.path.exists() else self._write(asked)
        if state is None:
            return BatchDone(0, 0, 0.0)
        try:
            if state.file is None:
                content = self._requests.read_bytes()
                sent = client.call(lambda sdk: sdk.files.create(file=("turnwise.jsonl", content), purpose="batch"))
                state.file = sent.id
                self._save(state)
            if state.batch is None:
                state.batch = self._submit(client, state)
                self._save(state)
            batch = self._awaited(client, state.batch)
            done = self._collected(client, state, batch)
        except ChatError as fault:
            raise ObserverError(f"batch {self.path}: {fault}; the same command continues") from None
        self._requests.unlink(missing_ok=True)
        self.path.unlink()
        if not done.replies:
            raise ObserverError(f"batch {state.batch} is {batch.status} without a reply: {_errors(batch)}")
        return done

    @property
    def _requests(self) -> Path:
        return self.path.with_name(f"{self.path.name}.requests.jsonl")

    def _read(self) -> _BatchState:
        try:
            state = _BatchState(**json.loads(self.path.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{self.path} is no state of a batch: name another file") from error
        if (state.spec, state.base_url) != (self.endpoint.spec, self.endpoint.base_url):
            raise UsageError(
                f"{self.path} is the state of a batch of {state.spec} at {state.base_url}: name another file"
            )
        return state

    def _save(self, state: _BatchState) -> None:
        _replace(self.path, json.dumps(asdict(state)))

    def _write(self, asked: Iterable[Asked]) -> _BatchState | None:
        """Write the requests that have no kept reply; None where there are none."""
        state = _BatchState(self.endpoint.spec, self.endpoint.base_url, secrets.token_hex(16), {})
        bodies: list[str] = []
        most = 0.0
        for key, repeat, nonce, body, cost in self._missing(asked):
            state.lines[str(len(bodies))] = key, repeat, nonce
            most += cost
            line = {"custom_id": str(len(bodies)), "method": "POST", "url": "/v1/chat/completions", "body": body}
            bodies.append(json.dumps(line))
        budget = self.endpoint.settings.budget_usd
        if budget is not None and most > budget:
            may = f"the batch may cost ${most:.4f}, the budget is ${budget:.2f}"
            raise BudgetError(f"{may}: nothing was submitted; give a larger --budget, or fewer conversations")
        if not bodies:
            return None
        _replace(self._requests, "\n".join(bodies) + "\n")
        self._save(state)
        return state

    def _missing(self, asked: Iterable[Asked]) -> Iterator[tuple[str, int, str, dict[str, object], float]]:
        endpoint = self.endpoint
        seen: set[tuple[str, int]] = set()
        for requests, turns, turn, context in asked:
            principles, side = [request.principle for request in requests], requests[0].side
            about = principles, turns, turn, side, context
            for key, repeat in endpoint.requests(*about):
                kept = self.journal.find(key, repeat) if endpoint.reuses_replies else None
                if (key, repeat) in seen or (kept is not None and endpoint.is_readable(kept, principles)):
                    continue
                seen.add((key, repeat))
                nonce = fresh_nonce(text for _, _, text in shown_texts(turns, turn, side, context))
                messages = endpoint.messages(*about, nonce)
                body = endpoint.request(messages, [principle.name for principle in principles]).body()
                most = endpoint.estimate(*about, 1).most_usd or 0.0
                yield key, repeat, nonce, body, most * self._share

    @property
    def _share(self) -> float:
        return 1.0 if self.endpoint.price is None else self.endpoint.price.batch

    def _submit(self, client: OpenAIClient, state: _BatchState) -> str:
        """Submit the batch, unless it was submitted before; its number."""
        if state.submitting:
            for batch in client.call(lambda sdk: list(sdk.batches.list(limit=100))):
                if (batch.metadata or {}).get(_MARK) == state.mark:
                    return str(batch.id)
        state.submitting = True
        self._save(state)
        made = client.call(
            lambda sdk: sdk.batches.create(
                input_file_id=state.file,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={_MARK: state.mark},
            )
        )
        return str(made.id)

    def _awaited(self, client: OpenAIClient, number: str) -> Any:
        lost, told = 0, ""
        while True:
            try:
                batch = client.call(lambda sdk: sdk.batches.retrieve(number))
            except ChatError as fault:
                lost += 1
                if fault.kind not in PASSING or lost > _LOST_LOOKS:
                    raise
            else:
                lost = 0
                if batch.status in _ENDED:
                    return batch
                counts = batch.request_counts
                reached = f", {counts.completed} of {counts.total}" if counts else ""
                line = f"batch {number}: {batch.status}{reached}"
                if line != told:
                    self.tell(line)
                told = line
            self.wait(POLL_S)

    def _collected(self, client: OpenAIClient, state: _BatchState, batch: Any) -> BatchDone:
        if batch.output_file_id is None:
            return BatchDone(len(state.lines), 0, None)
        content = client.call(lambda sdk: sdk.files.content(batch.output_file_id).content)
        replies, cost = 0, 0.0
        known = True
        for line in content.splitlines():
            found = self._reply(client, state, line)
            if found is None:
                continue
            kept = self.journal.find(found.request_key, found.repeat)
            if kept is None or kept.nonce != found.nonce:
                self.journal.record(found)
            replies += 1
            known = known and found.cost_usd is not None
            cost += found.cost_usd or 0.0
        return BatchDone(len(state.lines), replies, cost if known else None)

    def _reply(self, client: OpenAIClient, state: _BatchState, line: bytes) -> Reply | None:
        """The reply in a line of the results; None where the request got none, or is none of ours."""
        try:
            result = json.loads(line)
            key, repeat, nonce = state.lines[result["custom_id"]]
            response = result["response"]
            status, body = response["status_code"], json.dumps(response["body"]).encode()
        except (ValueError, KeyError, TypeError):
            return None
        answer = client.read(body, 200) if status == 200 else None
        if not isinstance(answer, ChatReply):
            return None
        made = self.endpoint.reply(answer, key, repeat, nonce, self.endpoint.structured, 0.0, self.clock())
        return replace(made, cost_usd=None if made.cost_usd is None else made.cost_usd * self._share)


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is whole after a kill: as it was, or as it is to be."""
    other = path.with_name(f"{path.name}.new")
    with other.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    other.replace(path)


def _errors(batch: Any) -> str:
    found = getattr(batch.errors, "data", None) or []
    return "; ".join(str(one.message) for one in found[:3]) or "the provider gives no reason"
