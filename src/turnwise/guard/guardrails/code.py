"""Code in a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Literal, get_args

from turnwise._support.characters import MARK, OTHER_ALNUM, SIGN, SPACE, byte_table, kinds_of
from turnwise._support.regex_sets import RegexFilter
from turnwise.errors import GuardError
from turnwise.guard.finding import CLEAN, Cost, Finding, On, Redaction
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.patterns import check_count, check_types, filled, marked, read_table
from turnwise.guard.recognisers.text import Span, apart
from turnwise.linear_regex import LinearRegex

# what is known: blocks between fences whatever they hold, and languages
CodeType = Literal[
    "fenced", "shell", "powershell", "sql", "html_script", "python", "javascript", "java", "c", "go",
    "rust", "csharp", "ruby", "kotlin", "php", "perl", "r", "lua", "visual_basic", "lisp", "elixir",
    "swift", "scala", "haskell", "assembly",
]  # fmt: skip

# what is told of a type, where that is more than its name
_NAMES = {
    "fenced": "a code block",
    "html_script": "a script in HTML",
    "shell": "shell commands",
    "c": "C or C++",
    "visual_basic": "Visual Basic",
    "sql": "SQL",
    "php": "PHP",
    "powershell": "PowerShell",
    "javascript": "JavaScript",
    "csharp": "C#",
    "r": "R",
}

# Blocks of a text, or matches of an expression, that are told apart. With more matches the rest counts as one.
_MOST = 200

_FENCES = ("```", "~~~")
_FENCE = LinearRegex(r"(?m)^[ \t>]{0,9}(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]{0,200})$")
_PROSE = frozenset({"text", "txt", "plain", "plaintext", "quote", "poem"})
_IN_ASCII = byte_table({"_": OTHER_ALNUM, " ": SPACE, "~": MARK + SIGN, "": "".join(map(chr, range(128)))}, "~")
_CODE = LinearRegex(r"(?m)[={}()<>;\[\]$|\\]|^\s*#|--\w")


@dataclass(frozen=True)
class Code(Guardrail):
    """Code: fenced blocks, shell commands, SQL, scripts in HTML, and some programming languages.

    A language is told by lines that prose does not have (``def name(...):``, ``SELECT ... FROM``, ``rm -rf``).

    It does not find code that is described in words, pseudocode, single expressions (``x = 1``), languages it does
    not name, markup and data (HTML without scripts, JSON, YAML), and code that is encoded.

    Args:
        types: what to look for; all by default: ``fenced`` (blocks between ``` or ~~~, whatever they hold, but
            those marked as text), ``shell`` (and the command prompt of Windows), ``powershell``, ``sql``,
            ``html_script``, ``python``, ``javascript``, ``java``, ``c`` (and C++), ``go``, ``rust``, ``csharp``,
            ``ruby``, ``kotlin``, ``php``, ``perl``, ``r``, ``lua``, ``visual_basic``, ``lisp`` (and Clojure),
            ``elixir``, ``swift``, ``scala``, ``haskell``, ``assembly``.
        min_lines: lines of code from which it is a finding, at least 1, counted over all types.
        placeholder: what redaction puts in place.

    Raises:
        GuardError: no or unknown types, or a number of lines below 1.

    >>> from turnwise.guard.kit import finding_of
    >>> finding_of(Code(), "Try this: curl https://get.example/x.sh | sudo bash").reason
    'shell commands'
    """

    cost: ClassVar[Cost] = Cost.TEXT
    redacts: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = (On.BOTH, On.TOOL_CALL)
    default_timeout: ClassVar[float | None] = None

    types: tuple[CodeType, ...] = get_args(CodeType)
    min_lines: int = 1
    placeholder: str = "[CODE]"
    _signs: Sequence[tuple[CodeType, LinearRegex]] = field(init=False, repr=False, compare=False)
    _filter: RegexFilter = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_types("type of code", self.types, get_args(CodeType))
        check_count("min_lines", self.min_lines)
        if not self.placeholder:
            raise GuardError("placeholder is empty; give the text that replaces what was found")
        types = tuple(self.types)
        object.__setattr__(self, "_signs", _signs(types))
        object.__setattr__(self, "_filter", _filter(types))

    def check(self, check: Check) -> Finding:
        folded = PLAIN.fold(check.text)
        found = list(self._find(folded.plain))
        spans = apart(found)
        lines = sum(folded.plain.count("\n", span.start, span.end) + 1 for span in spans)
        if not spans or lines < self.min_lines:
            return CLEAN
        kinds = list(dict.fromkeys(span.kind for span in sorted(found)))
        return Finding(
            found=True,
            reason=", ".join(_NAMES.get(kind) or kind.capitalize() for kind in kinds),
            confidence=max(span.confidence for span in spans),
            redactions=tuple(
                Redaction(*folded.span(span.start, span.end), span.kind, self.placeholder) for span in spans
            ),
            data={"types": kinds, "lines": lines},
        )

    def _find(self, plain: str) -> Iterator[Span]:
        if "fenced" in self.types and any(fence in plain for fence in _FENCES):
            yield from _find_fenced(plain)
        # of the same length in ASCII, with what RE2 takes for a letter, a space or a sign as Unicode does
        masked = kinds_of(plain).translate(_IN_ASCII)
        ends: dict[CodeType, int] = {}
        for kind, sign in map(self._signs.__getitem__, self._filter.possible(masked)):
            for count, (start, behind) in enumerate(sign.places(masked[: ends.get(kind)])):
                if count == _MOST:
                    yield Span(start, len(plain), kind, 0.85)
                    ends[kind] = start
                    break
                yield Span(start, behind, kind, 0.85)


def _find_fenced(plain: str) -> Iterator[Span]:
    """Fenced blocks (CommonMark 0.31, section 4.5), but none marked as text, nor unmarked ones without code."""
    opened: tuple[int, str, str] | None = None  # where the block begins, its fence, and what stands behind that
    count = end = 0
    for spans in _FENCE.spans(plain):
        (start, behind), fence, info = spans[0], plain[slice(*spans[1])], plain[slice(*spans[2])].strip()
        if opened is None:
            opened, end = (start, fence, info), behind
        elif not info and fence[0] == opened[1][0] and len(fence) >= len(opened[1]):
            count += 1
            if count > _MOST:
                break
            if _is_code(opened[2], plain[end:start]):
                yield Span(opened[0], behind, "fenced", 0.95 if opened[2] else 0.8)
            opened = None
    if opened is not None and _is_code(opened[2], plain[end:]):
        yield Span(opened[0], len(plain), "fenced", 0.7)


def _is_code(info: str, body: str) -> bool:
    language = info.lower().split(" ")[0]
    if language in _PROSE or not body.strip():
        return False
    return bool(language) or _CODE.search(body) is not None


@cache
def _signs(types: Sequence[CodeType]) -> Sequence[tuple[CodeType, LinearRegex]]:
    """Expressions for lines and tags that are code by themselves, with the language of each."""
    table = read_table("code_signs.yaml")
    words, languages = marked(table["words"]), table["languages"]
    return [
        (kind, LinearRegex(f"(?m){filled(sign, words)}")) for kind in types for sign in languages.get(kind, ())
    ]


@cache
def _filter(types: Sequence[CodeType]) -> RegexFilter:
    return RegexFilter([sign.pattern for _, sign in _signs(types)])
