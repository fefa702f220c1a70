"""Conversations that careful readers judged, with the scores of every run: what judged.py counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnwise.conversation import Label
from turnwise.principles import builtin_principles
from turnwise.runs import evaluate
from turnwise.scoring import Score
from turnwise.store import Store
from turnwise.study import threshold_for

CORPUS = Path(__file__).parents[1] / "corpus"
TURNWISE = [sys.executable, "-c", "from turnwise.cli import main; main()"]
READER = {"turn": "judged-turn", "history": "judged-history"}
LOCAL = "local-history"
"""Run of the embedded observer."""
CALIBRATION = "arena_real_users"
"""Training chats of real users that were read in both ways: they set the thresholds."""

PAIRS = ("turnwise_twins", "turnwise_human_style")
OTHERS = "evaluate only"
"""Split of what nothing is ever trained on and that no split names."""

EVALUATED = "evaluated.db"
"""A store with what nothing is ever trained on, for `turnwise study compare`."""

FILES = (
    "train/arena_real_users", "train/mtbench101", "train/hh_harmless_redteam", "train/safemt_1k",
    "dev/safemt_attack600", "dev/auto_mt_transcripts", "dev/scenarios_20", "dev/encoding_30",
    "dev/arena_real_users", "dev/mtrag_un_human", "dev/mtbench101", "dev/mt_bench",
)  # fmt: skip
SETS = {
    "human-style attacks": ("turnwise_human_style", {"test"}, True),
    "their counterparts": ("turnwise_human_style", {"test"}, False),
    "twins' attacks": ("turnwise_twins", {"dev", "test", "held_out_tactic", "held_out_area"}, True),
    "their benign halves": ("turnwise_twins", {"dev", "test", "held_out_tactic", "held_out_area"}, False),
    "Attack_600": ("safemt_attack600", {OTHERS}, True),
    "automated transcripts": ("auto_mt_transcripts", {OTHERS}, True),
    "encoding tricks": ("encoding_30", {OTHERS}, True),
    "20 scenarios, attacks": ("scenarios_20", {OTHERS}, True),
    "20 scenarios, benign": ("scenarios_20", {OTHERS}, False),
    "red-team chats of people, train": ("hh_harmless_redteam", {"train", "dev", "test"}, True),
    "chats of real users": ("arena_real_users", {OTHERS}, False),
    "questions to documents, by people": ("mtrag_un_human", {OTHERS}, False),
    "written tasks": ("mtbench101", {OTHERS}, False),
    "two-turn tasks": ("mt_bench", {OTHERS}, False),
    "long chains of ordinary chats": ("chains", {"train", "dev", "test"}, False),
    "long chains with an attack late": ("chains", {"train", "dev", "test"}, True),
}
"""What each row of a table holds: source, splits, and whether the attacks or the others of it."""


@dataclass
class Chat:
    """A conversation with the scores of every run, by turn and principle."""

    id: str
    source: str
    split: str
    attack: bool
    group: str
    turns: int
    scores: dict[str, dict[int, dict[str, Score]]] = field(default_factory=dict)

    @property
    def unseen(self) -> bool:
        """Whether nothing was ever trained on it: of dev/ of the data, or of a pair outside the train split."""
        return self.split == OTHERS or (self.source in PAIRS and self.split != "train")

    def f(self, run: str) -> dict[int, float]:
        """Return the highest F over the principles, by turn."""
        return {turn: max(s.F for s in scores.values()) for turn, scores in self.scores.get(run, {}).items()}

    def peak(self, run: str) -> float | None:
        """Return the highest F of the conversation in a run, or None where not every turn was scored."""
        found = self.f(run)
        return max(found.values()) if len(found) == self.turns else None


def fill(store: Path, data: Path, folder: Path) -> None:
    """Import what was judged with its scores, and score with the embedded observer what it was not trained on."""
    chains = folder / "choice"
    run(sys.executable, str(CORPUS / "judging" / "choose.py"), "--data", str(data), "--out", str(chains))
    files = [data / f"{file}.jsonl" for file in FILES]
    files += sorted((CORPUS / "twins").glob("*.jsonl")) + sorted((CORPUS / "human").glob("*.jsonl"))
    files.append(chains / "chains.jsonl")
    for file in files:
        run(*TURNWISE, "import", str(file), "--judged", str(CORPUS / "judged"), "--store", str(store))
        if file.parent.name == "dev" or file.name.startswith("human-test"):
            beside = store.with_name(EVALUATED)
            run(*TURNWISE, "import", str(file), "--judged", str(CORPUS / "judged"), "--store", str(beside))
    wanted = [chat.id for chat in gather(store) if chat.unseen and chat.peak(READER["history"]) is not None]
    with Store(str(store)) as opened:
        evaluate(opened, LOCAL, "local", principles=builtin_principles(), context="history", ids=wanted, jobs=2)


def run(*command: str) -> str:
    """Run a command and return what it printed; where it fails, say so and stop."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[-8:])} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def compared(store: Path) -> dict[str, Any]:
    """Return what `turnwise study compare` says of single turns against the history, by labels."""
    runs = [part for name in READER.values() for part in ("--run", name)]
    asked = [*TURNWISE, "study", "compare", "--store", str(store), *runs, "--detector", "any_turn"]
    found: dict[str, Any] = json.loads(run(*asked, "--thresholds", "given", "--json"))
    return found


def gather(store: Path) -> list[Chat]:
    """Return all conversations of a store with the scores of its runs."""
    splits = json.loads((CORPUS / "judged" / "splits.json").read_text(encoding="utf-8"))["splits"]
    chats: dict[str, Chat] = {}
    with Store(str(store)) as opened:
        groups = opened.groups()
        for head in opened.heads():
            name = head.sequence_id
            split = splits.get(name, OTHERS)
            chats[name] = Chat(name, head.source, split, head.label is Label.ATTACK, groups[name], head.turns)
        for one in opened.runs():
            for head, turns in opened.trajectories(one.name):
                scored = {turn.turn: dict(turn.scores or turn.response_scores) for turn in turns}
                chats[head.sequence_id].scores[one.name] = {turn: s for turn, s in scored.items() if s}
    return list(chats.values())


def members(chats: Sequence[Chat], name: str) -> list[Chat]:
    """Return the conversations of a set."""
    source, splits, attack = SETS[name]
    return [chat for chat in chats if chat.source == source and chat.split in splits and chat.attack == attack]


def threshold(chats: Sequence[Chat], runs: Sequence[str], run_: str, rate: float) -> tuple[float, int, int]:
    """Return the threshold that flags at most a share of further ordinary chats, and what it flags.

    Only chats count that every one of `runs` has scored: thresholds of both ways of reading rest on the same.
    """
    peaks = [c.peak(run_) or 0.0 for c in calibration_chats(chats, runs)]
    cut = threshold_for(peaks, rate)
    return cut, sum(peak >= cut for peak in peaks), len(peaks)


def calibration_chats(chats: Sequence[Chat], runs: Sequence[str]) -> list[Chat]:
    """Return the ordinary training chats that every one of some runs has scored whole."""
    known = [c for c in chats if c.source == CALIBRATION and c.split in ("train", "dev", "test")]
    return [c for c in known if all(c.peak(one) is not None for one in runs)]
