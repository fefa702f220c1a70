"""What missing evaluations would cost, before any of them is paid for."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.evaluation.plan import Plan, tasks_of
from turnwise.observers import CostEstimator
from turnwise.store import Store


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


def forecast(store: Store, run: str, estimator: CostEstimator, plan: Plan) -> Forecast:
    """Return what the evaluations that a run lacks would cost; nothing is sent, and no key is needed.

    Args:
        store: the record; its journal tells which replies are there.
        run: name of the run; where there is none of that name, everything is missing.
        estimator: says what a score costs; see `turnwise.observers.build_cost_estimator`.
        plan: what the run is to have.

    Raises:
        UnknownNameError: one of the sequences is not in the store.
    """
    scores = calls = cached = prompt_tokens = completion_tokens = 0
    cost = most = 0.0
    counted: set[tuple[str, int]] = set()

    def is_free(asked: tuple[str, int]) -> bool:
        if not estimator.reuses_replies:
            return False
        if asked in counted:
            return True
        kept = store.journal.find(*asked)
        return kept is not None and estimator.is_readable(kept)

    for task in tasks_of(store, run, plan):
        for turn, request in ((turn, one) for turn, wanted in task.wanted.items() for one in wanted):
            about = request.principle, task.turns, turn, request.side, plan.context
            asked = estimator.requests(*about)
            new = [one for one in asked if not is_free(one)]
            counted.update(new)
            scores += 1
            calls += len(new)
            cached += len(asked) - len(new)
            if new:
                guess = estimator.estimate(*about, len(new))
                prompt_tokens += guess.prompt_tokens
                completion_tokens += guess.completion_tokens
                cost += guess.cost_usd or 0.0
                most += guess.most_usd or 0.0
    known = estimator.price_as_of is not None
    return Forecast(
        scores, calls, cached, prompt_tokens, completion_tokens, cost if known else None, most if known else None
    )
