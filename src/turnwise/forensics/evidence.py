"""How evidence grew: what each guardrail found, which turns it came from, and where the session stood after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from turnwise.guard.audit.record import pseudonym
from turnwise.guard.finding import Action
from turnwise.guard.results import GuardrailStatus
from turnwise.linear_regex import LinearRegex

_VERBS: Final = {Action.BLOCK: "blocked", Action.REDACT: "redacted", Action.WARN: "warned", Action.LOG: "logged"}

_NAMES_TURNS: Final = LinearRegex(r"\bturns? [0-9]")

_STANDS: Final = ("mode", "phase", "strikes", "evidence")
"""What of a stance tells where a session stands; a change of it is told though nothing was found."""


def evidence(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how evidence grew, check by check, over one conversation or several.

    Args:
        events: checks as an audit has them (`turnwise.guard.audit.read_audit`), in order of time; events of many
            sessions may be mixed.

    Returns:
        An entry for each check that found something, or after which a session stood elsewhere: ``time``,
        ``conversation_id``, ``turn``, ``side``; ``pieces``, each with ``guardrail``, ``did`` (``blocked``,
        ``redacted``, ``warned``, ``logged`` or ``corrected``), ``what``, and the ``turns`` that it came from, with
        their ``conversation`` where that is another one; and after the check ``mode``, ``phase``, ``trust``,
        ``strikes`` and ``adds_up`` (F over turns and incidents over conversations, in words), null where no
        session is known.

    >>> found = {"status": "evaluated", "found": True, "action": "warn", "reason": "odd", "data": None}
    >>> event = {"time": "2026-01-01", "conversation_id": "c", "turn": 2, "side": "input", "stance": None}
    >>> (entry,) = evidence([{**event, "guardrails": {"regex": found}}])
    >>> entry["pieces"]
    [{'guardrail': 'regex', 'did': 'warned', 'what': 'odd', 'from': [{'turn': 2}]}]
    """
    entries: list[dict[str, Any]] = []
    stood: dict[str, tuple[Any, ...]] = {}
    names: dict[str, str] = {}
    for event in events:
        if event.get("turn") is None:
            continue  # a gap, or a prompt that a rate limit refused
        stance, here = event.get("stance") or {}, str(event.get("conversation_id"))
        names[pseudonym(here)] = here
        session = str(event.get("session_id", ""))
        stands = tuple(stance.get(name) for name in _STANDS)
        changed = bool(stance) and stands != stood.get(session, ("normal", "normal", 0, ""))
        if stance:
            stood[session] = stands
        pieces = [*_pieces(event, stance, names)]
        if pieces or changed:
            entries.append(
                {
                    **{name: event.get(name) for name in ("time", "conversation_id", "turn", "side")},
                    "pieces": pieces,
                    **{name: stance.get(name) for name in ("mode", "phase", "trust", "strikes")},
                    "adds_up": stance.get("evidence"),
                }
            )
    return entries


def _pieces(
    event: Mapping[str, Any], stance: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    for name, detail in (event.get("guardrails") or {}).items():
        if detail.get("status") != GuardrailStatus.EVALUATED or not detail.get("found"):
            continue
        did = "corrected" if event.get("kind") == "correction" else None
        did = did or ("blocked" if detail.get("blocked") else _VERBS.get(detail.get("action"), "found"))
        yield {
            "guardrail": name,
            "did": did,
            "what": detail.get("reason"),
            "from": _from(event, detail, stance, names),
        }


def _from(
    event: Mapping[str, Any], detail: Mapping[str, Any], stance: Mapping[str, Any], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The turns that a piece came from, the one under check last; `names` has conversations by their pseudonym."""
    here, turn, data = str(event.get("conversation_id")), event["turn"], detail.get("data")
    places: dict[tuple[str, int], None] = {}
    if isinstance(data, Mapping):
        for part in _listed(data, "over_turns"):
            places |= {(here, one): None for one in _listed(part, "turns") if isinstance(one, int)}
        for one in _listed(data, "resembles"):
            if isinstance(one, Mapping) and isinstance(one.get("turn"), int):
                name = str(one.get("conversation"))
                places[(names.get(name, name), one["turn"])] = None
        if "trajectory" in data:
            over = [one for one in _listed(stance, "counted")[1:2] if isinstance(one, int)]
            places |= {(here, turn - back): None for most in over for back in range(min(most, turn) - 1, 0, -1)}
    places[(here, turn)] = None
    return [{"turn": number} | ({} if name == here else {"conversation": name}) for name, number in places]


def _listed(data: object, key: str) -> Sequence[Any]:
    """A list in what the guard kept, which anybody may have changed since; empty where it is none."""
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, list | tuple) else ()


def piece_in_words(piece: Mapping[str, Any]) -> str:
    """A piece of evidence as a person reads it.

    >>> came = [{"turn": 1}, {"turn": 4}, {"turn": 2, "conversation": "chat-3"}]
    >>> piece_in_words({"guardrail": "pii", "did": "blocked", "what": "1 payment card", "from": came})
    'pii blocked: 1 payment card (from turns 1, 4; turn 2 of chat-3)'
    """
    own = [str(one["turn"]) for one in piece["from"] if "conversation" not in one]
    others = [f"turn {one['turn']} of {one['conversation']}" for one in piece["from"] if "conversation" in one]
    parts = [f"turn{'s' if len(own) > 1 else ''} {', '.join(own)}"] if own else []
    told = len(piece["from"]) == 1 or _NAMES_TURNS.search(str(piece["what"])) is not None
    came = "" if told else f" (from {'; '.join([*parts, *others])})"
    return f"{piece['guardrail']} {piece['did']}: {piece['what']}{came}"


def stands_in_words(entry: Mapping[str, Any]) -> str:
    """Where a session stood after a check; empty where none is known.

    >>> after = {"mode": "guarded", "phase": "normal", "trust": 0.41, "strikes": 2}
    >>> stands_in_words({**after, "adds_up": "F 0.42 for 12 turns"})
    'guarded, trust 0.41, 2 strikes, F 0.42 for 12 turns'
    """
    if entry.get("mode") is None:
        return ""
    strikes = entry.get("strikes") or 0
    parts = [str(entry["mode"]), f"trust {entry['trust']:.2f}"]
    parts += [f"breaker {entry['phase']}"] if entry["phase"] != "normal" else []
    parts += [f"{strikes} strike{'' if strikes == 1 else 's'}"] if strikes else []
    return ", ".join([*parts, *filter(None, [entry.get("adds_up")])])
