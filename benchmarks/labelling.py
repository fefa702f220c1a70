"""Labels given through the page while its server is killed: none that the page showed as kept is lost.

python benchmarks/labelling.py [--labels 500] [--kills 5]
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

from explored import chromium, explored
from playwright.sync_api import Error, Page

from turnwise.conversation import Conversation, Label, Sequence
from turnwise.runs import detect, evaluate
from turnwise.store import Store
from turnwise.study import load_examples

AUTHOR = "script"


def main() -> int:
    """Label, kill, go on, and compare what the page showed with what the store and the commands have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=500)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    kills = sorted(draw.sample(range(1, asked.labels), asked.kills))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "labels.db"
        _make(file, asked.labels + 20)
        shown = 0  # answers of which the page showed the next conversation
        began, killed = time.perf_counter(), 0
        while shown < asked.labels:
            until = kills[killed] if killed < len(kills) else asked.labels
            with explored("--store", str(file)) as running:
                page = browser.new_context().new_page()
                page.goto(running.address)
                page.goto(f"{running.url}/label?author={AUTHOR}&order=all")
                page.get_by_role("button", name="Attack (1)").wait_for()
                shown = _kept(file)
                while shown < until:
                    shown += _answer(page, draw.choice("12"), shown)
                if killed < len(kills) and shown < asked.labels:
                    page.keyboard.press("1")  # one more is under way
                    time.sleep(draw.random() * 0.05)
                    running.process.send_signal(signal.SIGKILL)
                    killed += 1
                page.context.close()
            print(f"{shown} shown as kept, {_kept(file)} in the store", flush=True)
            if _kept(file) < shown:
                print("a label was lost")
                return 1
        seconds = time.perf_counter() - began
        return _seen(file, seconds, killed)


def _seen(file: Path, seconds: float, killed: int) -> int:
    """Compare what commands see of the labels."""
    with Store(file) as store:
        labels = store.people.labels([AUTHOR])
        judged = detect(store, "run", ["any_turn"], corrected_by=[AUTHOR])
        told = {one.head.sequence_id: one.label for one in judged}
        seen = sum(told.get(name) is label for name, label in labels.items())
        asked = store.query("F >= 0.0", "run", where='label = "attack"', corrected_by=[AUTHOR])
        found = sum(1 for _ in asked)
        loaded = load_examples(store, "run", corrected_by=[AUTHOR])
    attacks = sum(label is Label.ATTACK for label in labels.values())
    print(f"{len(labels)} labels in {seconds:.0f} s with {killed} kills; detect sees {seen}")
    print(f"query finds {found} of their {attacks} attacks; compare loads {len(loaded.examples)}")
    return 0 if seen == len(labels) == len(loaded.examples) and found == attacks else 1


def _answer(page: Page, key: str, before: int) -> int:
    """Give one answer; 1 once the page shows another conversation."""
    text = page.locator(".label-body ol").inner_text()
    page.keyboard.press(key)
    try:
        another = "before => document.querySelector('.label-body ol')?.innerText !== before"
        page.wait_for_function(another, arg=text)
    except Error:
        print(f"no answer to label {before + 1}")
        raise
    return 1


def _kept(file: Path) -> int:
    with Store(file) as store:
        return len(store.people.corrections(author=AUTHOR))


def _make(file: Path, count: int) -> None:
    with Store(file, create=True) as store:
        sequences = []
        for n in range(count):
            conversation = Conversation()
            conversation.add_prompt(f"Conversation {n}: how do I bake bread?")
            sequences.append(Sequence(f"chat-{n}", Label.UNLABELLED, "made", conversation))
        store.add_sequences(sequences)
        evaluate(store, "run", "scripted:0.9")


if __name__ == "__main__":
    sys.exit(main())
