"""``python -m documentation``: write the pages that are made from the program and its tests.

python -m documentation                  # writes them
python -m documentation --check          # says which of them are not current, and ends with 1
python -m documentation --build          # builds the site into build/site; says its faults, and ends with 1
python -m documentation --site build/site  # says what a built site would ask of other hosts, and ends with 1
python -m documentation --words          # counts the words of the pages that people write
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from documentation import formats, glossary, peers, reference, rules, settings, site, specification, word_count

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Do what the command line says and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m documentation", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say what is not current")
    parser.add_argument(
        "--build", action="store_true", help="build the site into build/site instead, and look at it"
    )
    parser.add_argument("--site", type=Path, help="look at a built site instead")
    parser.add_argument("--words", action="store_true", help="count the words of pages that people write instead")
    asked = parser.parse_args()
    if asked.words:
        counts = word_count.words()
        for name, count in sorted(counts.items(), key=lambda one: -one[1]):
            print(f"{count:6,} {name}")
        whole = sum(word_count.words(code=True).values())
        print(f"{sum(counts.values()):6,} in all; {whole:,} with code and what it prints")
        return 0
    if asked.build or asked.site:
        faults = site.build(ROOT) if asked.build else site.outside_requests(asked.site)
        print(*faults, sep="\n", end="\n" if faults else "")
        return 1 if faults else 0
    stale = {path: text for path, text in made().items() if current(path) != text}
    for path, text in stale.items():
        if asked.check:
            print(f"{path} is not current: run python -m documentation")
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if stale and asked.check else 0


def made() -> dict[str, str]:
    """Return all pages that are made, by their path from the repository's root."""
    makers = (reference, settings, rules, specification, peers, formats, glossary)
    return {path: text for maker in makers for path, text in maker.pages().items()}


def current(path: str) -> str | None:
    """Return a page as it stands, or None where there is none."""
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
