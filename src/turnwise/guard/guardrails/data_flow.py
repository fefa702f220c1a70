"""``data_flow``: secrets and personal data that a tool or document brought in, in arguments of another tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import ClassVar, Final, Literal, NamedTuple, get_args

from turnwise.conversation import Conversation, Side, Turn
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, On, TextKind
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.guardrails.pii import Pii
from turnwise.guard.guardrails.secrets import Secrets
from turnwise.guard.recognisers.deobfuscation import readings
from turnwise.guard.recognisers.patterns import check_types
from turnwise.guard.tool_texts import context_of
from turnwise.linear_regex import LinearRegex

FlowType = Literal["secrets", "personal", "tokens"]

_TURNS = 50  # turns that are looked at, from the last one back

# characters of what was brought in, and of what the user said, that are looked at; the latest ones
_MOST = 64_000

_VALUES = 500  # values of a text that are looked for
_TEXTS = 256  # texts whose values are remembered
_SHORTEST = 6  # letters and digits of a value, at least
_TOKEN = LinearRegex(r"[A-Za-z0-9+/_=-]{24,1000}")
_OUTSIDE = LinearRegex(r"(?i)\b[a-z]{2,10}://[a-z0-9.-]+|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}")

# personal data that tools don't hand on in passing, as they do names and addresses
_PERSONAL: Final = (
    "ssn", "card", "iban", "passport", "driving_licence", "bank_account", "medical_record", "insurance",
    "tax_id", "national_id", "birth_date",
)  # fmt: skip


class Brought(NamedTuple):
    """A text that came from a tool, document or memory; `name` says which."""

    name: str
    text: str


@dataclass(frozen=True)
class DataFlow(Guardrail):
    """Secrets and personal data that a tool or document brought in, on their way out by another tool.

    A value is told where it came in, so a password that nothing names in the arguments is found there; encoded and
    disguised arguments are read. Not found are values that the user gave. Looked at are the latest 50 turns, and
    64,000 characters of what they brought in. A secret is a finding in full, the rest a warning.

    Args:
        types: ``secrets`` (as the guardrail of that name has them), ``personal`` (numbers of cards, accounts,
            passports and the like, dates of birth), ``tokens``: 24 letters and digits or
            more, in arguments that name a host or address that the user did not.
        same_tool: whether a value may go back to the tool that it came from.

    Raises:
        GuardError: no or unknown types.

    >>> from turnwise import Conversation, GuardrailPipeline
    >>> pipeline, chat = GuardrailPipeline({"guardrails": ["data_flow"]}), Conversation()
    >>> _ = pipeline.check_tool_result("password: Tr0ub4dor-x", name="read_file", conversation=chat)
    >>> pipeline.check_tool_call("post", {"body": "VHIwdWI0ZG9yLXg="}, conversation=chat).reasons
    ['data_flow: a secret from read_file in the arguments of post']
    """

    types: tuple[FlowType, ...] = get_args(FlowType)
    same_tool: bool = True
    _secrets: Secrets = field(init=False, repr=False, compare=False)
    _personal: Pii = field(init=False, repr=False, compare=False)
    _values: Callable[[str, bool], list[tuple[str, str]]] = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.TEXT
    default_on: ClassVar[On | tuple[On, ...]] = On.TOOL_CALL
    reads: ClassVar[On | tuple[On, ...]] = On.TOOL_CALL
    default_timeout: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        check_types("type of data", self.types, get_args(FlowType))
        object.__setattr__(self, "_secrets", Secrets())
        object.__setattr__(self, "_personal", Pii(types=_PERSONAL))
        # At each call the same texts are looked at again.
        object.__setattr__(self, "_values", lru_cache(_TEXTS)(self._values_of))

    def check(self, check: Check) -> Finding:
        tool = "" if check.tool is None else check.tool.name
        came = _latest_characters(_brought(check))
        brought = [one for one in came if not (self.same_tool and tool and one.name == tool)]
        if not brought:
            return CLEAN
        arguments = "\n".join(_plain(reading.plain) for reading in readings(check))
        prompts = (Brought("", turn.prompt) for turn in _latest(check))
        told = "\n".join(_plain(one.text) for one in _latest_characters(prompts))
        outward = "tokens" in self.types and any(
            _plain(match[0]) not in told for match in _OUTSIDE.finditer(check.text)
        )
        gravest = CLEAN
        for one in brought:
            for kind, value in self._values(one.text, outward):
                plain = _plain(value)
                if len(plain) < _SHORTEST or plain not in arguments or plain in told:
                    continue
                reason = f"{kind} from {one.name} in the arguments of {tool}"
                if kind == "a secret":
                    return Finding(True, reason, 0.95)
                if not gravest.found:
                    gravest = Finding(True, reason, 0.8, action=Action.WARN)
        return gravest

    def _values_of(self, text: str, tokens: bool) -> list[tuple[str, str]]:
        """The values of a text, at most so many, with what they are."""
        alone = Conversation()
        check = Check(text, Side.PROMPT, alone.add_prompt(""), alone, alone.conversation_id)
        found = []
        if "secrets" in self.types:
            found += [("a secret", one) for one in self._secrets.check(check).redactions[:_VALUES]]
        if "personal" in self.types:
            found += [("personal data", one) for one in self._personal.check(check).redactions[:_VALUES]]
        values = [(kind, text[one.start : one.end]) for kind, one in found]
        if tokens:
            matches = (match[0] for match in _TOKEN.finditer(text))
            values += [("a token", token) for token in islice(filter(_is_token, matches), _VALUES)]
        return values


def _is_token(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def _plain(text: str) -> str:
    """A text as its letters and digits, so that separators don't hide a value."""
    return "".join(filter(str.isalnum, text.casefold()))


def _brought(check: Check) -> Iterator[Brought]:
    """What tools, documents and memory brought in, the latest first."""
    for turn in _latest(check):
        for one in check.conversation.tools.latest_results(turn):
            yield Brought(one.name or "a tool", one.content)
        context = [
            Brought(one.name or f"a {one.kind}", one.text)
            for one in context_of(turn)
            if one.kind is not TextKind.TOOL_DESCRIPTION
        ]
        yield from reversed(context)


def _latest_characters(texts: Iterable[Brought]) -> Iterator[Brought]:
    """The first of some texts, up to `_MOST` characters together."""
    left = _MOST
    for one in texts:
        yield one._replace(text=one.text[:left])
        left -= len(one.text)
        if left <= 0:
            return


def _latest(check: Check) -> Iterator[Turn]:
    turns = check.conversation.turns
    return reversed(turns[max(0, len(turns) - _TURNS) :])
