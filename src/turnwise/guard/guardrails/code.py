"""Code in a text."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import ClassVar, get_args

from turnwise.errors import GuardError
from turnwise.guard.guardrail import CLEAN, Check, Cost, Finding, Guardrail, On, Redaction
from turnwise.guard.recognisers.code_signs import HINTS, find_code
from turnwise.guard.recognisers.code_types import CodeType
from turnwise.guard.recognisers.fenced_blocks import find_fenced
from turnwise.guard.recognisers.folding import PLAIN
from turnwise.guard.recognisers.settings import check_types
from turnwise.guard.recognisers.spans import Span, apart
from turnwise.linear_regex import RegexSet

_NAMES = {
    "fenced": "a code block",
    "html_script": "a script in HTML",
    "shell": "shell commands",
    "c": "C or C++",
    "visual_basic": "Visual Basic",
}
_PROPER = {
    "sql": "SQL",
    "php": "PHP",
    "powershell": "PowerShell",
    "javascript": "JavaScript",
    "csharp": "C#",
    "r": "R",
}


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
    _shapes: RegexSet = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_types("type of code", self.types, get_args(CodeType))
        if isinstance(self.min_lines, bool) or not isinstance(self.min_lines, int) or self.min_lines < 1:
            raise GuardError(f"min_lines is a whole number of at least 1, not {self.min_lines!r}")
        if not self.placeholder:
            raise GuardError("placeholder is empty")
        object.__setattr__(self, "_shapes", RegexSet({kind: HINTS[kind] for kind in self.types}, ignore_case=True))

    def check(self, check: Check) -> Finding:
        """Return what code a text has, with a redaction for each block and line."""
        folded = PLAIN.fold(check.text)
        shapes = self._shapes.present(folded.plain)
        if not shapes:
            return CLEAN
        found = list(self._find(folded.plain, shapes))
        spans = apart(found)
        lines = sum(folded.plain.count("\n", span.start, span.end) + 1 for span in spans)
        if not spans or lines < self.min_lines:
            return CLEAN
        kinds = list(dict.fromkeys(span.kind for span in sorted(found)))
        return Finding(
            found=True,
            reason=", ".join(_NAMES.get(kind) or _PROPER.get(kind) or kind.capitalize() for kind in kinds),
            confidence=max(span.confidence for span in spans),
            redactions=tuple(
                Redaction(*folded.span(span.start, span.end), span.kind, self.placeholder) for span in spans
            ),
            data={"types": kinds, "lines": lines},
        )

    def _find(self, plain: str, shapes: Set[str]) -> Iterator[Span]:
        for kind in self.types:
            if kind in shapes:
                yield from find_fenced(plain) if kind == "fenced" else find_code(plain, kind)
