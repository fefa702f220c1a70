"""What each text guardrail costs: a short clean message, a finding, and long hostile texts.

Run with ``python benchmarks/guard_text.py``. Prints microseconds for messages of some 40 tokens and milliseconds
for texts of 100,000 characters, each the best of several repeats, in one thread.
"""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable

from turnwise.guard.guardrail import Guardrail
from turnwise.guard.guardrails.code import Code
from turnwise.guard.guardrails.keywords import Keywords
from turnwise.guard.guardrails.length import Length
from turnwise.guard.guardrails.pii import Pii
from turnwise.guard.guardrails.regex import Regex
from turnwise.guard.guardrails.secrets import Secrets
from turnwise.guard.guardrails.topics import Topics
from turnwise.guard.guardrails.try_out import opening_check
from turnwise.guard.guardrails.urls import Urls

CLEAN = (
    "I would like to know how long the delivery takes if I order the blue chairs today, and whether I could pick "
    "them up at the shop near the station instead of waiting for 3 days."
)
LENGTH = 100_000
CLEAN_LIMIT_US = 30.0
HOSTILE_LIMIT_MS = 10.0
ALL_LIMIT_MS = 50.0


def words(count: int) -> tuple[str, ...]:
    """Return made-up words."""
    source = random.Random(1)
    return tuple("".join(source.choices(string.ascii_lowercase, k=source.randint(6, 12))) for _ in range(count))


GUARDRAILS: dict[str, tuple[Guardrail, str]] = {
    "pii": (Pii(), "My card is 4111 1111 1111 1111 and my mail is jane@example.com."),
    "secrets": (Secrets(), "Use the key " + "AKIA" + "QZ7XW2PLM4NB6VCK" + " for the upload, please."),
    "keywords 10,000": (Keywords(keywords=words(10_000)), f"What do you know of {words(10_000)[77]} by now?"),
    "regex 10": (
        Regex(patterns={f"code_{index}": rf"\b{name}-\d{{4}}\b" for index, name in enumerate(words(10))}),
        f"My number is {words(10)[3]}-1234, as I said.",
    ),
    "length": (Length(max_characters=500, max_tokens=100), CLEAN * 3),
    "urls": (
        Urls(allow=("example.com", "example.org"), deny=("evil.example",), allow_only=True),
        "Please look at https://www.evil.example/path and tell me more.",
    ),
    "topics": (
        Topics(deny={"gambling": ("casino", "sports bet*", "poker"), "medicine": ("diagnos*", "prescri*")}),
        "Which casino has the best poker tables in town?",
    ),
    "code": (Code(), "Run this for me: ```\nimport os\nos.listdir('/')\n```"),
}

HOSTILE = {
    "a.": "a." * (LENGTH // 2),
    "ab.": "ab." * (LENGTH // 3),
    "brackets": "([{<" * (LENGTH // 8) + ">}])" * (LENGTH // 8),
    "digits": "4" * LENGTH,
    "1 1 1": "1 " * (LENGTH // 2),
    "@": "@" * LENGTH,
    "a@": "a@" * (LENGTH // 2),
    "-": "-" * LENGTH,
    "1-": "1-" * (LENGTH // 2),
    "a:": "a:" * (LENGTH // 2),
    "spaces": " " * LENGTH,
    "1.2.": "1.2." * (LENGTH // 4),
    "`": "`" * LENGTH,
    "fences": "```\n" * (LENGTH // 4),
    "<script": "<script" * (LENGTH // 7),
    "select": "select a," * (LENGTH // 9),
    "$ ls": "$ ls \n" * (LENGTH // 6),
    "AA00": "AA00 " * (LENGTH // 5),
    "eyJ": "eyJ" * (LENGTH // 3),
    "unseen": "a\u200b" * (LENGTH // 2),
    "letters": "x" * LENGTH,
}
"""Texts that make badly written expressions slow."""

DENSE = {
    "mails": "a@b.example " * (LENGTH // 12),
    "cards": "4111 1111 1111 1111, " * (LENGTH // 21),
    "phones": "212-555-0123, " * (LENGTH // 14),
    "links": " ".join(f"h{index}.example.com" for index in range(LENGTH // 18)),
    "orders": "order 4532015112830366\n" * (LENGTH // 23),
}
"""Texts that are full of what is looked for, so that the work is real; not limited, but shown."""


def best(run: Callable[[], object], number: int, repeats: int = 5) -> float:
    """Return the seconds of a call: the best of several repeats."""
    least = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(number):
            run()
        least = min(least, time.perf_counter() - began)
    return least / number


def seconds(guardrail: Guardrail, text: str, number: int, repeats: int = 5) -> float:
    """Return the seconds of a check, each with nothing shared from an earlier one."""
    check = opening_check(text)

    def run() -> object:
        check.shared = {}
        return guardrail.check(check)

    return best(run, number, repeats)


def main() -> None:
    """Print the tables; exit with 1 where a guardrail costs more than it may."""
    missed = 0
    print(f"{'guardrail':16} {'clean us':>9} {'found us':>9}")
    for name, (guardrail, finding) in GUARDRAILS.items():
        clean, found = seconds(guardrail, CLEAN, 500) * 1e6, seconds(guardrail, finding, 200) * 1e6
        slow = clean > CLEAN_LIMIT_US
        missed += slow
        print(f"{name:16} {clean:9.1f} {found:9.1f}{'  MISSED' if slow else ''}")
    print(f"at most {CLEAN_LIMIT_US:.0f} us for a clean message\n")
    for title, texts, limited in (("hostile", HOSTILE, True), ("dense", DENSE, False)):
        print(f"{title + ' ms':16} " + " ".join(f"{name:>8}" for name in texts))
        totals = dict.fromkeys(texts, 0.0)
        for name, (guardrail, _) in GUARDRAILS.items():
            taken = {key: seconds(guardrail, text, 1, 7) * 1e3 for key, text in texts.items()}
            totals = {key: totals[key] + taken[key] for key in texts}
            slow = sum(value > HOSTILE_LIMIT_MS for value in taken.values()) if limited else 0
            missed += slow
            mark = f"  {slow} MISSED" if slow else ""
            print(f"{name:16} " + " ".join(f"{value:8.2f}" for value in taken.values()) + mark)
        slow = sum(value > ALL_LIMIT_MS for value in totals.values()) if limited else 0
        missed += slow
        mark = f"  {slow} MISSED" if slow else ""
        print(f"{'all of them':16} " + " ".join(f"{value:8.2f}" for value in totals.values()) + mark + "\n")
    print(
        f"{LENGTH:,} characters each; hostile at most {HOSTILE_LIMIT_MS:.0f} ms a guardrail, "
        f"{ALL_LIMIT_MS:.0f} ms all; {missed} missed"
    )
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
