"""What each text guardrail costs, what it finds of cases with a known answer, and what it says of ordinary texts.

    python benchmarks/guard_text.py                                        # guardrail by guardrail
    python benchmarks/guard_text.py --presets all [--lengths 100000 1000000] [--match WORD]
    python benchmarks/guard_text.py --cases [CATEGORY ...] [--show] [--held]
    python benchmarks/guard_text.py --ordinary --data PATH [--show]
    python benchmarks/guard_text.py --people --data PATH [--held] [--presets basic]
    python benchmarks/guard_text.py --convabuse --data PATH [--limit 400 [--skip 400]]

Without options it prints microseconds for messages of some 40 tokens and milliseconds for texts of 100,000
characters, each the best of several repeats, in one thread. With ``--presets`` it checks some 250 kinds of hostile
text with whole presets (all of them, or those that are named), observers replaced by fixed scores. It prints the
worst milliseconds of processor time for each 1,000 characters by preset and length, and the slowest five kinds.

With ``--cases`` it prints precision and recall by category on the cases in ``benchmarks/guard_cases``, apart for
each set of them (benchmarks/guard_cases/README.md says what they are), and for the category ``use`` what the
presets basic and agent make of orders to the model and of mentions of them; ``--show`` prints each wrong answer,
``--held`` reads the cases of use that nothing was tuned on. With ``--ordinary`` it checks 2,000 prompts and 2,000
replies of ordinary chats with the text guardrails of the presets basic and customer_service, and prints each text
that is blocked; ``--show`` prints all in which something is found. With ``--people`` it prints what a preset makes
of injections that players wrote and of ordinary talk of people, each user's turn checked in its conversation; with
``--held`` also of what nobody looked at. With ``--convabuse`` it measures ``toxicity``
on what people said to chatbots: the lexicon, observer ``local``, and both; ``--limit`` and ``--skip`` take it in
pieces, whose counts add up.

The exit code is 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import string
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.cli_sweep import NoAnswer, within
from benchmarks.guard_accuracy import measure_cases, measure_ordinary, measure_people
from benchmarks.hostile import MS_PER_KB, UNITS, preset_pipeline

from turnwise import GuardrailPipeline
from turnwise.guard.guardrail import Guardrail
from turnwise.guard.guardrails.code import Code
from turnwise.guard.guardrails.harm import Harm
from turnwise.guard.guardrails.keywords import Keywords, Regex
from turnwise.guard.guardrails.length import Length
from turnwise.guard.guardrails.pii import Pii
from turnwise.guard.guardrails.secrets import Secrets
from turnwise.guard.guardrails.topics import Topics
from turnwise.guard.guardrails.toxicity import Toxicity
from turnwise.guard.guardrails.urls import Urls
from turnwise.guard.kit import finding_of, opening_check
from turnwise.rates import Rate

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
    "phones abroad": (
        Pii(types=("phone",), regions=("US", "GB", "DE")),
        "Ring me on 020 7946 0958 or 030 901820, please.",
    ),
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
    "national": "020 7946 0958, 030 901820, " * (LENGTH // 27),
    "links": " ".join(f"h{index}.example.com" for index in range(LENGTH // 18)),
    "orders": "order 4532015112830366\n" * (LENGTH // 23),
}
"""Texts that are full of what is looked for, so that the work is real; not limited, but shown."""


STARTS = {
    "select spaces": ("SELECT", " ", ""),
    "select words": ("SELECT ", "a ", ""),
    "select lower": ("select a", ",a", ""),
    "insert": ("", "insert into a (", ""),
    "rm flags": ("rm -", "r", ""),
    "rm options": ("rm -r", " -r", ""),
    "sudo": ("", "sudo -a ", ""),
    "curl": ("", "curl a ", ""),
    "curl pipes": ("", "curl a|", ""),
    "ls a": ("", "ls a", ""),
    "bash": ("", "bash ", "/dev/tcp"),
    "user@host": ("", "a@a", ":$ ls"),
    "script": ("", "<script ", ">"),
    "script open": ("<script>", "<", ""),
    "on": ("", "<a on", "error="),
    "tags": ("", "<a b ", ">onerror=x"),
    "def": ("", "def f(", ""),
    "def spaces": ("def", " ", "f("),
    "class": ("", "class a(", ""),
    "import": ("import a", ", a", "!"),
    "from": ("from a", ".a", " import"),
    "for": ("", "for a in ", ""),
    "while": ("while a", "<", ""),
    "function spaces": ("function", " ", ""),
    "function": ("", "function a(", ""),
    "arrow": ("", "(", "=>{"),
    "const": ("", "const {", ""),
    "const spaces": ("const a", " ", "= 1"),
    "arrow spaces": ("a", " ", "=> x("),
    "public": ("public ", "static ", ""),
    "define": ("# ", " ", "define A"),
    "main": ("", "int main(", ""),
    "printf": ("", "printf(a", ""),
    "printf signs": ("printf", " ", "(a"),
    "go func": ("", "func (a ", ""),
    "go arguments": ("", "func a(", ")"),
    "go assignment": ("a", " ", ":= b("),
    "rust fn": ("", "fn a<", ""),
    "rust arguments": ("", "fn a(", ""),
    "rust body": ("", "fn a()", ""),
    "impl": ("", "impl a ", ""),
    "php": ("<?php", "?", ""),
    "php opens": ("", "<?php ", ""),
    "union": ("", "union select ", ""),
    "or quotes": ("", "' or '", ""),
    "putty": ("", "PuTTY-User-Key-File-2", ""),
    "begin key": ("", "-----BEGIN PRIVATE KEY-----", ""),
    "dashes": ("-----BEGIN PRIVATE KEY-----", "-", ""),
    "aws secret": ("", "aws_secret", "="),
    "secret key": ("", "secret access key ", ""),
    "connection": ("", "a://a:", "@b"),
    "connection plus": ("", "a+", "://a:bcd@e"),
    "server": ("", "server=a;", ""),
    "authorization": ("", "authorization ", ""),
    "bearer": ("", "Bearer a", ""),
    "bearer spaces": ("Bearer", " ", ""),
    "jwt": ("", "eyJhbGciOiJIUz.", ""),
    "slack": ("xoxb-", "a", "!"),
    "names": ("", "api_key_", "= 'x1'"),
    "assignments": ("", "password=", ""),
    "assigned": ("", "token: ab1", ""),
    "underscores": ("", "a_", "pass: hunter2"),
    "password is": ("", "password is ", ""),
    "passport": ("", "passport ", "1"),
    "passport number": ("passport", " number", ""),
    "licence": ("", "dl ", "a12"),
    "account": ("", "account number ", ""),
    "mrn": ("", "MRN 00482913 ", ""),
    "account numbers": ("", "account number is 12345678, ", ""),
    "account gaps": ("", "account number for a is 1", ""),
    "names before": ("", "12345678 is my account number ", ""),
    "policy": ("", "policy a1 ", ""),
    "plates": ("", "plate ab 1", ""),
    "patients": ("", "patient a b 1/1/", ""),
    "born": ("", "born on 1 ", ""),
    "birth": ("", "dob of a is 01/02/1990 ", ""),
    "mistyped": ("", "card 4111 1111 1111 1112 ", ""),
    "iban": ("", "de12 ", ""),
    "iban groups": ("", "gb82 west 1234 ", ""),
    "ip": ("", "1.2.3.", ""),
    "ip spelled": ("", "1 dot ", ""),
    "ip v6": ("", "1::", ""),
    "ip v6 groups": ("", "abc:", ""),
    "ssn": ("", "123-45-6789", ""),
    "ssn named": ("ssn ", "1-", ""),
    "card spelled": ("", "4111 dash ", ""),
    "phones": ("", "+1 212 ", ""),
    "phones local": ("", "555-0123 ", ""),
    "mail spelled": ("", "a at b dot ", "com"),
    "mail brackets": ("", "a(at)", "b(dot)com"),
    "mail domain": ("a@", "a.", "1"),
    "mail domains": ("", "a@a.", ""),
    "marks": ("1a ", "!", ""),
    "leet": ("", "p4", ""),
    "leet words": ("", "p4ss ", ""),
    "leet word": ("p4", "s", ""),
    "spaced": ("", "a b c d ", ""),
    "spaced dots": ("", "i.g.n.o.r.e ", ""),
    "no spaces": ("", "ignoreall", ""),
    "glue": ("", "aall", "q"),
    "signs": ("", "ignore-all+the_rules.", ""),
    "quotes": ("", "' ", ""),
    "quoted": ("", "'abc", ""),
    "quotes open": ("you idiot ", "\u201c", ""),
    "quotes open wide": ("you idiot ", "\u201ca ", ""),
    "percents before a host": ("a.com ", "%+", "a"),
    "base32 lines": ("", "QQQQQQQQQQQQQ\n", ""),
    "lines": ("", "a\n", ""),
    "quoted lines": ("", "> ", "```"),
    "fence info": ("```", "a ", "\n```"),
    "fences apart": ("", "```a\nx\n```\n", ""),
    "fence signs": ("", "~~~~\n````\n", ""),
    "escapes": ("", "\\u0041", ""),
    "entities": ("", "&#x41;", ""),
    "entities open": ("", "&lt", ""),
    "percents": ("", "%41%", ""),
    "soft breaks": ("", "a=\n", ""),
    "hexadecimal": ("", "41 ", ""),
    "base64 words": ("", "SGVsbG8gd29ybGQgYWdhaW4= ", ""),
    "base64": ("", "SGVsbG8g", ""),
    "base32": ("", "JBSWY3DP", ""),
    "bits": ("", "01000001", ""),
    "lookalikes": ("", "аеb ", ""),
    "styled": ("", "𝐚", ""),
    "wide": ("", "ａｂ ", ""),
    "accents": ("", "é́", ""),
    "bare hosts": ("", "a.com ", ""),
    "many dots": ("a", "[.]a", ""),
    "schemes": ("", "http://a.b/", ""),
    "two slashes": ("", " //a", ""),
    "users": ("", "a@b.com/", ""),
    "you": ("", "you are so very ", ""),
    "i hate": ("", "i really ", "hate you"),
    "digits in words": ("", "four one ", ""),
    "letters in words": ("", "alfa double one ", ""),
    "Morse": ("", ".- -... ", ""),
    "overrides": ("", "\u202eab\u202c", ""),
    "emphasis": ("", "a**bb**", ""),
    "emphasised digits": ("", "**41** ", ""),
    "joined strings": ("", '"a" + ', ""),
    "ciphers named": ("reversed rot13 base64 ", "abcd ", ""),
    "lines of one width": ("", "abc\n", ""),
    "broken words": ("", "ig\nnore ", ""),
    "code points": ("", "U+0041 ", ""),
    "signs between words": ("", "ab \U0001f600 ", ""),
    "humps": ("", "IgnoreAll", ""),
    "orders in Italian": ("", "ignora tutte le dimentica ", ""),
    "orders in Turkish": ("", "onceki tum talimat ", ""),
    "orders in Korean": ("", "\uc774\uc804 \uc9c0\uc2dc \ubaa8\ub4e0 ", ""),
}
"""What begins a find, what is repeated behind it, and what ends the text."""

MIXED = 20
"""Hostile texts that are mixed of all pieces at random."""

NO_ANSWER_S = 60.0
"""Seconds after which a check is given up."""


def hostile_kinds(length: int) -> Iterator[tuple[str, str]]:
    """Yield a name and a text of so many characters for each kind of hostile text, the same in each run."""
    for name, (start, repeated, end) in STARTS.items():
        yield name, _filled(start, repeated, end, length)
    for unit in UNITS:
        yield f"{unit!a} again", _filled("", unit, "", length)
    for number in range(MIXED):
        source = random.Random(number)
        pieces = UNITS if number % 2 else [*UNITS, *(repeated for _, repeated, _ in STARTS.values())]
        yield f"mixed {number}", "".join(source.choices(pieces, k=length))[:length]


def _filled(start: str, repeated: str, end: str, length: int) -> str:
    room = length - len(start) - len(end)
    return start + (repeated * (room // len(repeated) + 1))[:room] + end


def costs_of_preset(preset: str, length: int, match: str) -> dict[str, float]:
    """Return the milliseconds of processor time for each 1,000 characters that a preset takes, by kind of text.

    Args:
        preset: its name.
        length: characters of the texts.
        match: only kinds whose names contain it are tried.
    """
    pipeline = preset_pipeline(preset)
    costs = {}
    for name, text in hostile_kinds(length):
        if match not in name:
            continue
        taken = []
        for _ in range(2):
            began = time.process_time()
            try:
                with within(NO_ANSWER_S):
                    pipeline.check_input(text)
            except NoAnswer:
                pass
            taken.append(time.process_time() - began)
            if taken[-1] * 1e6 <= MS_PER_KB * length:
                break
        costs[name] = min(taken) * 1e6 / length
    return costs


def measure_presets(presets: Sequence[str], lengths: Sequence[int], match: str) -> int:
    """Print what presets cost at each length; return how often the limit is missed."""
    missed = 0
    print(f"{'preset':20} {'characters':>10} {'kinds':>5} {'missed':>6} {'worst':>7}  slowest kinds, ms per 1,000")
    for preset in presets:
        for length in lengths:
            costs = costs_of_preset(preset, length, match)
            over = sum(cost > MS_PER_KB for cost in costs.values())
            slowest = sorted(costs, key=costs.__getitem__, reverse=True)[:5]
            named = ", ".join(f"{name} {costs[name]:.2f}" for name in slowest)
            print(
                f"{preset:20} {length:10,} {len(costs):5} {over:6} {costs[slowest[0]]:7.2f}  {named}", flush=True
            )
            missed += over
    print(f"at most {MS_PER_KB} ms for each 1,000 characters; {missed} missed")
    return missed


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
    """Print the tables; exit with 1 where a guardrail or preset costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", metavar="PRESET", help="check these presets, or all")
    parser.add_argument("--lengths", nargs="+", type=int, default=[LENGTH, 10 * LENGTH], metavar="CHARACTERS")
    parser.add_argument("--match", default="", metavar="WORD", help="only kinds of text with this in their name")
    parser.add_argument("--cases", nargs="*", metavar="CATEGORY", help="precision and recall, of all or of these")
    parser.add_argument(
        "--held", action="store_true", help="with --cases, --people: those that nothing was tuned on, too"
    )
    parser.add_argument("--ordinary", action="store_true", help="what is blocked of ordinary prompts and replies")
    parser.add_argument("--people", action="store_true", help="injections by players, and ordinary talk of people")
    parser.add_argument("--convabuse", action="store_true", help="toxicity on what people said to chatbots")
    parser.add_argument("--limit", type=int, metavar="COUNT", help="with --convabuse: texts at most")
    parser.add_argument(
        "--skip", type=int, default=0, metavar="COUNT", help="with --convabuse: texts left out first"
    )
    parser.add_argument(
        "--data", type=Path, metavar="PATH", help="folder with dev and single/dev, for the last three"
    )
    parser.add_argument("--show", action="store_true", help="print the texts themselves")
    options = parser.parse_args()
    if options.cases is not None:
        raise SystemExit(bool(measure_cases(options.cases, show=options.show, held=options.held)))
    if options.convabuse:
        if options.data is None:
            parser.error("--convabuse needs --data PATH")
        measure_convabuse(options.data, options.skip, options.limit)
        return
    if options.people:
        if options.data is None:
            parser.error("--people needs --data PATH")
        presets = options.presets or ["basic"]
        raise SystemExit(bool(measure_people(options.data, presets, show=options.show, held=options.held)))
    if options.ordinary:
        if options.data is None:
            parser.error("--ordinary needs --data PATH")
        presets = options.presets or ["basic", "customer_service"]
        raise SystemExit(bool(measure_ordinary(options.data, presets, show=options.show)))
    if options.presets:
        every = GuardrailPipeline.available_presets()
        presets = every if options.presets == ["all"] else options.presets
        raise SystemExit(bool(measure_presets(presets, options.lengths, options.match)))
    measure_guardrails()


def measure_guardrails() -> None:
    """Print what each guardrail costs by itself; exit with 1 where one costs more than it may."""
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


def measure_convabuse(data: Path, skip: int = 0, limit: int | None = None) -> None:
    """Print precision and recall of ``toxicity`` on ConvAbuse, what people said to chatbots, rated by experts.

    Source: Cercas Curry and others, ConvAbuse (EMNLP 2021). Texts that are neither abusive nor benign by the mean
    of the ratings are left out. Each is read by itself.

    Args:
        data: a folder with ``single/dev/convabuse.jsonl``.
        skip: texts that are left out first.
        limit: texts at most; None for all.
    """
    with (data / "single/dev/convabuse.jsonl").open(encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["label"] in ("abusive", "benign")]
    rows = rows[skip:][:limit]
    lexicon, observer = Toxicity(), Harm()
    answers: dict[str, list[bool]] = {"lexicon": [], "observer local": [], "both": []}
    for row in rows:
        by_words, by_score = (finding_of(each, row["text"]).found for each in (lexicon, observer))
        for name, found in zip(answers, (by_words, by_score, by_words or by_score), strict=True):
            answers[name].append(found)
    abusive = [row["label"] == "abusive" for row in rows]
    print(f"{f'convabuse, {len(rows)}':16} {'precision':>32} {'recall':>32}")
    for name, given in answers.items():
        right = sum(found and label for found, label in zip(given, abusive, strict=True))
        print(f"{name:16} {Rate(right, sum(given))!s:>32} {Rate(right, sum(abusive))!s:>32}", flush=True)


if __name__ == "__main__":
    main()
