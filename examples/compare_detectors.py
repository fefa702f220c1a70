"""Score the conversations that ship, and compare two detectors on them, with exact intervals.

Run it with `python examples/compare_detectors.py`. A study with thresholds at an equal rate of
false positives and tests is `turnwise study compare`, see docs/study.md.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import turnwise
from turnwise.rates import rates_by_label
from turnwise.store import import_sequences

DETECTORS = ("any_turn", "cusum")


def main() -> None:
    """Import, evaluate and detect: what the commands of the same names do."""
    examples = Path(turnwise.__file__).parent / "datasets" / "examples.jsonl"
    with TemporaryDirectory() as folder, turnwise.Store(Path(folder, "work.db"), create=True) as store:
        import_sequences(store, turnwise.load(str(examples)), where="examples")
        scored = turnwise.evaluate(store, "first", "local-small")
        print(f"{scored.evaluations} scores of {scored.sequences} conversations, {scored.failures} failures")
        for name in DETECTORS:
            found = list(turnwise.detect(store, "first", [name]))
            # A conversation without a score has no verdict; it is counted, never taken for clean.
            judged = [(str(one.head.label), one.verdict.fired) for one in found if one.verdict]
            print(f"{name}: {len(found) - len(judged)} without a verdict")
            for label, rate in sorted(rates_by_label(judged).items()):
                print(f"  {label}: fired on {rate}")


if __name__ == "__main__":
    main()
