"""What text guardrails cost by kind of text: random Unicode, disguised numbers, links, mixtures.

    python benchmarks/text_costs.py [--presets all] [--lengths 10000 100000] [--match WORD] [--guardrails]

Prints milliseconds of processor time for each 1,000 characters, the median of several texts of a kind. No two are
equal, so what is remembered of one helps little with the next; the process has met all characters of Unicode. A
pipeline is a preset without ``length``, ``drift`` and ``harm``, with the phrases of ``prompt_injection`` alone, in
which every guardrail reads every text. The column of a length is the dearest preset's; ``first`` is the first
text of its kind that a new process reads. ``--guardrails`` prints each guardrail of a preset by itself instead.
The exit code is 1 where a kind costs more than `MS_PER_KB`.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.guard import MESSAGES
from benchmarks.guard_text import STARTS
from benchmarks.hostile import MS_PER_KB, UNITS

from turnwise import GuardrailPipeline
from turnwise.guard.config import Config
from turnwise.guard.guardrail import Guardrail
from turnwise.guard.kit import opening_check

Text = Callable[[random.Random, int], str]
"""Makes a text of about so many characters."""

REPEATS = 3
SEED = 1

LEFT_OUT = ("length", "drift", "harm")
LISTED = "lists"
"""Preset research with hosts that are allowed and denied, with which others are compared."""

SETTINGS: Mapping[str, Mapping[str, object]] = {"prompt_injection": {"observer": None}}
LISTS: Mapping[str, Mapping[str, object]] = {
    "urls": {"allow": ["mybank.com", "example.org"], "deny": ["evil.example"], "ip_addresses": True}
}

SCRIPTS = (
    *((0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x5D0, 0x5EB), (0x620, 0x64B), (0x904, 0x93A)),
    *((0x10A0, 0x1100), (0x13A0, 0x13F6), (0x3041, 0x3097), (0x30A1, 0x30FB), (0x4E00, 0x9FA5), (0xAC00, 0xD7A4)),
)
"""Some scripts: the first code point and the one behind the last."""

DIGITS = {
    "full-width": "０１２３４５６７８９",
    "circled": "⓪①②③④⑤⑥⑦⑧⑨",
    "mathematical": "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗",
    "Arabic-Indic": "٠١٢٣٤٥٦٧٨٩",
    "superscript": "⁰¹²³⁴⁵⁶⁷⁸⁹",
}
SPELLED = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LOOKALIKES = str.maketrans("aeopcyxi", "аеорсухі")


@cache
def assigned(skipped: str) -> str:
    """Return all characters but those of some categories, and those that are not assigned or private."""
    every = map(chr, range(sys.maxunicode + 1))
    return "".join(each for each in every if unicodedata.category(each) not in ("Cn", "Co", "Cs", skipped))


def drawn(characters: str) -> Text:
    """Return what draws each character of a text from some."""
    return lambda source, length: "".join(source.choices(characters, k=length))


def repeated(make: Callable[[random.Random], str]) -> Text:
    """Return what puts made pieces one behind the other."""

    def text(source: random.Random, length: int) -> str:
        pieces: list[str] = []
        size = 0
        while size < length:
            pieces.append(make(source))
            size += len(pieces[-1])
        return "".join(pieces)[:length]

    return text


def of_scripts(source: random.Random, length: int) -> str:
    """Return words of four scripts, each in letters of one."""
    ranges = source.sample(SCRIPTS, 4)
    return repeated(lambda source: f"{word(source, *source.choice(ranges))} ")(source, length)


def word(source: random.Random, first: int = 97, behind: int = 123) -> str:
    """Return a word in letters from a code point to another."""
    return "".join(map(chr, source.choices(range(first, behind), k=source.randint(2, 9))))


def card(source: random.Random, form: str = "{} {} {} {}") -> str:
    """Return a card's number whose check digit is right, in four groups."""
    digits = [4, *source.choices(range(10), k=14)]
    total = sum(digit if place % 2 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(digits))
    number = "".join(map(str, [*digits, -total % 10]))
    return form.format(*(number[at : at + 4] for at in range(0, 16, 4)))


def in_digits(digits: str) -> Text:
    """Return what writes cards in other digits."""
    table = str.maketrans("0123456789", digits)
    return repeated(lambda source: card(source, "{} {} {} {}, ").translate(table))


def between(marks: str) -> Text:
    """Return what writes cards with marks between all digits."""
    return repeated(
        lambda source: "".join(each + source.choice(marks) for each in card(source, "{}{}{}{}")) + ", "
    )


def digit_groups(source: random.Random) -> str:
    """Return a row of digits and what is put between such."""
    return "".join(source.choices("0123456789", k=source.randint(1, 8))) + source.choice(
        (" ", "-", ".", "/", " - ", ",", ":", "*", "()", "+", " dash ", "\n")
    )


def host(source: random.Random) -> str:
    """Return a host of two or three parts, nearly always another one."""
    ending = source.choice(("com", "net", "de", "co.uk", "example"))
    return ".".join([word(source) for _ in range(source.randint(1, 2))] + [ending])


def lookalike(source: random.Random) -> str:
    """Return a host that looks like a trusted one, or like a mixture of scripts."""
    name = source.choice(("mybank.com", "example.org", host(source)))
    return source.choice(
        (
            name.translate(LOOKALIKES),
            name.replace("m", "rn", 1),
            f"{name}.{word(source)}.net",
            name.replace(".", f"{word(source)}.", 1),
            f"{word(source)}-{name}",
            f"xn--{word(source)}-{word(source)}.com",
            f"{word(source, 0x430, 0x450)}.{word(source, 0xE0, 0x100)}.com",
        )
    )


def mixed(source: random.Random) -> str:
    """Return a piece of any other kind."""
    how = source.randrange(4)
    if how == 0:
        return source.choice(UNITS)
    if how == 1:
        return source.choice(list(STARTS.values()))[1]
    kind = source.choice([kind for name, kind in KINDS.items() if not name.startswith("mixed")])
    return kind(source, source.choice((5, 20, 60))) + source.choice(("", " ", "\n"))


KINDS: Mapping[str, Text] = {
    "ordinary messages": repeated(lambda source: source.choice(MESSAGES) + " "),
    "all of Unicode": drawn(assigned("")),
    "Unicode without letters": drawn("".join(each for each in assigned("Lo") if not each.isalpha())),
    "Unicode without ideographs": drawn(assigned("Lo")),
    "a few scripts": of_scripts,
    "bytes as Latin-1": lambda source, length: source.randbytes(length).decode("latin-1"),
    "letters with accents": repeated(
        lambda source: source.choice("aeiou") + source.choice("\u0301\u0308\u0327\u0336")
    ),
    "cards": repeated(lambda source: card(source) + ","),
    "cards without an end": repeated(lambda source: card(source) + " "),
    "one card": lambda source, length: ("4111 1111 1111 1111 " * (length // 20 + 1))[:length],
    **{f"cards in {name} digits": in_digits(digits) for name, digits in DIGITS.items()},
    "cards in words": repeated(
        lambda source: " ".join(SPELLED[int(each)] for each in card(source, "{}{}{}{}")) + ", "
    ),
    "cards, spoken": repeated(lambda source: card(source, "{} dash {} dash {} dash {}, ")),
    "cards, stars between": repeated(lambda source: card(source, "{}*{}*{}*{} ")),
    "cards, pulled apart": between("-"),
    "cards, many signs between": between(" -./_*|,"),
    "cards, O and l for digits": repeated(
        lambda source: card(source, "{} {} {} {}, ").replace("0", "O").replace("1", "l")
    ),
    "cards in entities": repeated(lambda source: "".join(f"&#{ord(each)};" for each in card(source)) + ", "),
    "numbers with names": repeated(
        lambda source: (
            f"my {source.choice(('account', 'passport', 'policy', 'patient'))} number is "
            f"{source.randrange(10**8)}, "
        )
    ),
    "phones": repeated(lambda source: f"({source.randint(200, 999)}) 555-{source.randrange(10_000):04}, "),
    "phones abroad": repeated(lambda source: f"+{source.randint(1, 99)} {source.randrange(10**9)}, "),
    "IBANs": repeated(lambda source: f"DE{source.randrange(10**20):020}, "),
    "social security numbers": repeated(
        lambda source: f"{source.randint(1, 899):03}-{source.randint(1, 99):02}-{source.randint(1, 9999):04}, "
    ),
    "IP addresses": repeated(lambda source: ".".join(map(str, source.choices(range(256), k=4))) + " "),
    "e-mail addresses": repeated(lambda source: f"{word(source)}@{host(source)} "),
    "e-mail, spelled": repeated(lambda source: f"mail {word(source)} at {host(source).replace('.', ' dot ')}, "),
    "groups of digits": repeated(digit_groups),
    "links to one host": repeated(lambda source: f"https://example.com/{word(source)}?{word(source)}=1 "),
    "links to many hosts": repeated(lambda source: f"https://{host(source)}/{word(source)} "),
    "hosts": repeated(lambda source: f"{host(source)} "),
    "links to lookalikes": repeated(lambda source: f"https://{lookalike(source)}/ "),
    "lookalike hosts": repeated(lambda source: f"{lookalike(source)} "),
    "defanged links": repeated(lambda source: f"hxxp://{host(source).replace('.', '[.]')}/ "),
    "links with users": repeated(lambda source: f"http://{host(source)}@{host(source)}:80/ "),
    "links to addresses": repeated(
        lambda source: f"http://{'.'.join(map(str, source.choices(range(256), k=4)))}/ "
    ),
    "hosts in percent signs": repeated(
        lambda source: "http://" + "".join(f"%{ord(each):02x}" for each in host(source)) + "/ "
    ),
    "mixed": repeated(mixed),
    "mixed units": lambda source, length: "".join(source.choices(UNITS, k=length))[:length],
}
"""Kinds of text by name."""


@cache
def guardrails_of(preset: str) -> GuardrailPipeline:
    """Return a preset's text guardrails as a pipeline, warmed up."""
    config = Config.preset("research" if preset == LISTED else preset)
    settings = {**SETTINGS, **LISTS} if preset == LISTED else SETTINGS
    entries = tuple(
        replace(entry, settings={**entry.settings, **settings.get(str(entry.kind), {})})
        for entry in config.entries
        if entry.kind not in LEFT_OUT
    )
    pipeline = GuardrailPipeline(replace(config, entries=entries, short_circuit=False))
    for text in (*MESSAGES, assigned("")):
        pipeline.check_input(text)
        pipeline.check_output(text)
    gc.collect()
    gc.freeze()  # what the process keeps is not looked through again while texts are checked
    return pipeline


def in_child(measure: Callable[[], Sequence[float]]) -> list[float]:
    """Return what a function returns that is called in a copy of this process, which remembers nothing of it."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, " ".join(map(repr, measure())).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        costs = [float(each) for each in told.read().split()]
    os.waitpid(child, 0)
    return costs


def costs(check: Callable[[str], object], kind: str, length: int) -> tuple[float, float]:
    """Return milliseconds for each 1,000 characters of a kind of text: of the first text, and a median of more."""
    source = random.Random(f"{SEED} {kind}")
    texts = [KINDS[kind](source, length) for _ in range(1 + REPEATS)]

    def measure() -> Sequence[float]:
        taken = []
        for text in texts:
            began = time.process_time()
            check(text)
            taken.append((time.process_time() - began) * 1e6 / len(text))
        return taken

    first, *others = in_child(measure)
    return first, statistics.median(others)


def measure_presets(presets: Sequence[str], kinds: Sequence[str], lengths: Sequence[int]) -> int:
    """Print what kinds of text cost in the dearest of some presets; return how many cost too much."""
    pipelines = {preset: guardrails_of(preset) for preset in presets}
    titles = "".join(f"{f'{length:,}':>10}{'first':>8}  {'preset':17}" for length in lengths)
    print(f"{'ms for 1,000 characters':27}{titles}")
    missed = 0
    for kind in kinds:
        row = f"{kind:27}"
        over = False
        for length in lengths:
            taken = {name: costs(pipeline.check_input, kind, length) for name, pipeline in pipelines.items()}
            worst = max(taken, key=lambda name: taken[name][1])
            row += f"{taken[worst][1]:10.3f}{max(first for first, _ in taken.values()):8.2f}  {worst:17}"
            over |= taken[worst][1] > MS_PER_KB
        print(row + ("  MISSED" if over else ""), flush=True)
        missed += over
    print(f"at most {MS_PER_KB}; {missed} of {len(kinds)} kinds missed")
    return missed


def measure_guardrails(preset: str, kinds: Sequence[str], length: int) -> int:
    """Print what the guardrails of a preset cost one after the other, in one check; return 0."""
    rails = {step.name: step.guardrail for step in guardrails_of(preset).steps}
    print(f"{'ms for 1,000 characters':27}" + "".join(f"{name:>17}" for name in rails))
    for kind in kinds:
        source = random.Random(f"{SEED} {kind}")
        texts = [KINDS[kind](source, length) for _ in range(1 + REPEATS)]
        print(f"{kind:27}" + "".join(f"{each:17.3f}" for each in by_guardrail(rails, texts)), flush=True)
    return 0


def by_guardrail(rails: Mapping[str, Guardrail], texts: Sequence[str]) -> Sequence[float]:
    """Return what each guardrail costs, the median over all texts but the first."""
    taken: dict[str, list[float]] = {name: [] for name in rails}
    for text in texts:
        check = opening_check(text)
        for name, rail in rails.items():
            began = time.process_time()
            rail.check(check)
            taken[name].append((time.process_time() - began) * 1e6 / len(text))
    return [statistics.median(each[1:]) for each in taken.values()]


def main() -> int:
    """Print a table; return 1 where a kind of text costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = (*GuardrailPipeline.available_presets(), LISTED)
    parser.add_argument("--presets", nargs="+", choices=every, default=every, metavar="PRESET")
    parser.add_argument("--lengths", nargs="+", type=int, default=[10_000, 100_000], metavar="CHARACTERS")
    parser.add_argument("--match", default="", metavar="WORD", help="only kinds of text with this in their name")
    parser.add_argument("--guardrails", action="store_true", help="each guardrail of the first preset by itself")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if options.match in kind]
    if options.guardrails:
        return measure_guardrails(options.presets[0], kinds, options.lengths[-1])
    return bool(measure_presets(options.presets, kinds, options.lengths))


if __name__ == "__main__":
    sys.exit(main())
