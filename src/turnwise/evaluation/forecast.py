"""What missing evaluations would cost, before any of them is paid for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnwise.evaluation.plan import Aim, Work, works_of
from turnwise.observers import Request
from turnwise.store import Store

if TYPE_CHECKING:
    from turnwise.observers.llm import Endpoint


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a language model would be asked, and what that would cost.

    Args:
        scores: scores that the run lacks.
        calls: requests that would be sent for them, if none has to be sent again.
        cached: calls that replies answer which are kept already, or that others of these calls would answer.
        prompt_tokens: tokens of the requests that would be sent, about.
        completion_tokens: tokens of their replies, if these are of the usual length.
        cost_usd: what those would cost, in US dollars; None where the model's price is not known.
        most_usd: what they would cost if every reply were as long as it may be; None as before.
    """

    scores: int
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    most_usd: float | None


def forecast(store: Store, run: str, endpoint: Endpoint, aim: Aim) -> Forecast:
    """Return what the evaluations that a run lacks would cost; nothing is sent, and no key is needed.

    Args:
        store: the record; its journal tells which replies are there.
        run: name of the run; where there is none of that name, everything is missing.
        endpoint: the model, and how it would be asked.
        aim: what the run is to have.

    Raises:
        UnknownNameError: one of the sequences is not in the store.
    """
    from turnwise.observers.llm import estimate, render
    from turnwise.observers.llm.replies import read_reply

    settings, price = endpoint.settings, endpoint.price
    scores = calls = cached = prompt_tokens = completion_tokens = 0
    cost = most = 0.0
    counted: set[tuple[str, int]] = set()

    def is_there(key: str, repeat: int) -> bool:
        if not settings.cache:
            return False
        if (key, repeat) in counted:
            return True
        kept = store.journal.find(key, repeat)
        return kept is not None and read_reply(kept).score is not None

    for work in works_of(store, run, aim):
        for turn, request in _requests(work):
            about = request.principle, work.turns, turn, request.side, aim.context
            key = endpoint.request_key(*about)
            new = [repeat for repeat in range(1, settings.repeats + 1) if not is_there(key, repeat)]
            counted.update((key, repeat) for repeat in new)
            scores += 1
            calls += len(new)
            cached += settings.repeats - len(new)
            if new:
                guess = estimate(render(*about), price, settings.max_tokens, len(new))
                prompt_tokens += guess.prompt_tokens
                completion_tokens += guess.completion_tokens
                cost += guess.cost_usd or 0.0
                most += guess.most_usd or 0.0
    known = price is not None
    return Forecast(
        scores, calls, cached, prompt_tokens, completion_tokens, cost if known else None, most if known else None
    )


def _requests(work: Work) -> Iterable[tuple[int, Request]]:
    return ((turn, request) for turn, requests in work.wanted.items() for request in requests)
