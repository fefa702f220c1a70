"""Guard models as judges: what a server is sent for them, and how a score is read from their verdict.

The formats are data, in ``guard_models.toml``. A verdict is a label, of which F is derived: the probability of the
labels by the log-probabilities of the token where the label begins, weighted with the F of each label; without
log-probabilities the F of the label itself. T is 1 - F. I is the binary entropy of F in bits, 0 without
log-probabilities.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.conversation import Side, Turn
from turnwise.errors import UnknownNameError
from turnwise.linear_regex import LinearRegex
from turnwise.observers.llm.chat import Message
from turnwise.observers.llm.prompt import load_frame, show, shown_texts
from turnwise.observers.llm.replies import MALFORMED, ParsedReply, short, withheld
from turnwise.observers.protocol import Context
from turnwise.scoring import Reply, Score

PRINCIPLE = "third_party_harm"
"""The principle that a verdict speaks of; guard models know harm and nothing else."""

DERIVED = "T = 1 - F; I = binary entropy of F, or 0 without log-probabilities"
"""How T and I come of a verdict: part of the parameters of a run."""

ALTERNATIVES = 5
"""Log-probabilities that are asked for at each token."""

_ROLES = {Side.PROMPT: "user", Side.RESPONSE: "assistant"}


@dataclass(frozen=True, slots=True)
class GuardModel:
    """A kind of guard model; `labels` are in lower case, `extra` is by role of the last message."""

    name: str
    revision: str
    verdict: LinearRegex
    labels: Mapping[str, float]
    max_tokens: int
    last_exchange: bool
    extra: Mapping[str, Mapping[str, object]]

    def messages(self, turns: Sequence[Turn], turn: int, side: Side, context: Context) -> tuple[Message, ...]:
        """The conversation as roles that alternate, the judged text last, shown as in all requests."""
        texts = shown_texts(turns, turn, side, context)
        if self.last_exchange:
            texts = texts[-1:] if side is Side.PROMPT else texts[-2:]
        found: list[Message] = []
        for _, said_by, text in texts:
            role = _ROLES[said_by]
            if found and found[-1].role == role:
                found[-1] = Message(role, f"{found[-1].content}\n\n{show(text)}")
            else:
                found.append(Message(role, show(text)))
        return tuple(found)

    def read(self, reply: Reply) -> ParsedReply:
        kept_back = withheld(reply)
        if kept_back is not None:
            return kept_back
        text = reply.text.strip()
        found = self.verdict.search(text, at_start=True)
        if found is None:
            wrong = f"the reply is no verdict of {self.name}: {short(text)}" if text else "the reply is empty"
            return ParsedReply(reason=MALFORMED, message=wrong)
        before, label = found["before"], found["label"]
        F = None if reply.logprobs is None else self._expected(reply.logprobs, before, label)
        source, I = "log-probabilities", 0.0  # noqa: E741 - the field's name for indeterminacy
        if F is None:
            F, source = self.labels[label.lower()], "the label alone"
        else:
            I = _entropy(F)  # noqa: E741
        verdict = short(f"{label}{found['after']}")
        return ParsedReply(Score(1 - F, I, F), f"{verdict}; F from {source}")

    def _expected(self, logprobs: str, before: str, label: str) -> float | None:
        """F by the log-probabilities of the token where the label begins; None where they don't tell."""
        tokens: list[tuple[str, dict[str, float]]] = json.loads(logprobs)
        whole = "".join(token for token, _ in tokens)
        at = len(whole) - len(whole.lstrip()) + len(before)
        if not whole.lstrip().startswith(before + label[:1]):
            return None
        start = 0
        for token, alternatives in tokens:
            if start + len(token) > at:
                return None if token[: at - start].strip() else self._mean(alternatives)
            start += len(token)
        return None

    def _mean(self, alternatives: Mapping[str, float]) -> float | None:
        chances = dict.fromkeys(self.labels, 0.0)
        for token, logprob in alternatives.items():
            said = token.strip().lower()
            begun = [label for label in self.labels if len(said) > 1 and label.startswith(said)]
            if len(begun) == 1:  # a long label is several tokens, of which the first tells
                chances[begun[0]] += math.exp(logprob)
        total = sum(chances.values())
        if not total:
            return None
        return min(1.0, sum(chance * self.labels[label] for label, chance in chances.items()) / total)


def guard_model(name: str) -> GuardModel:
    """The guard models that a setting names.

    >>> guard_model("llama-guard").labels
    {'safe': 0.0, 'unsafe': 1.0}
    """
    known = _guard_models()
    if name not in known:
        raise UnknownNameError("format of guard models", name, known, all_shown=True)
    return known[name]


@functools.cache
def _guard_models() -> Mapping[str, GuardModel]:
    file = load_frame("guard_models.toml")
    return {name: _guard_model(name, file.revision, table) for name, table in file.texts.items()}


def _guard_model(name: str, revision: str, table: Mapping[str, Any]) -> GuardModel:
    labels = "|".join(table["labels"])
    return GuardModel(
        name=name,
        revision=revision,
        verdict=LinearRegex(
            rf"\A(?P<before>{table['before']})(?P<label>(?i:{labels}))(?P<after>{table['after']})\z"
        ),
        labels={label.lower(): F for label, F in table["labels"].items()},
        max_tokens=table["max_tokens"],
        last_exchange=table.get("last_exchange", False),
        extra={role: table.get(role, {}) for role in _ROLES.values()},
    )


def _entropy(F: float) -> float:
    """Binary entropy in bits.

    >>> _entropy(0.5), _entropy(1.0)
    (1.0, 0.0)
    """
    return min(1.0, -sum(chance * math.log2(chance) for chance in (F, 1 - F) if chance > 0) or 0.0)
