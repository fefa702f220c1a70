"""What reading many conversations at once saves, and whether a batch dimension would save more.

    python -m benchmarks.batches --part batch
    python -m benchmarks.batches --part repeats --data DATA/dev/arena_real_users.jsonl
    python -m benchmarks.batches --part many --data DATA/dev/arena_real_users.jsonl --rows 40

``batch``: tokens a second of the shipped graph, a window a pass, beside the same graph with a batch dimension, on
windows of one length, its best case: nothing is padded. ``repeats``: how many texts repeat in parts of 2,000
conversations, and how many tokens of windows are shared; nothing is run. ``many``: seconds of processor time turn
by turn and at once, on the first rows of a file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from turnwise.conversation import Side, Turn
from turnwise.observers import Context, Request, observe_conversations
from turnwise.observers.local import LocalObserver, LocalSmallObserver
from turnwise.observers.local.language_model_reader import Passes
from turnwise.observers.local.network import Cache, Network, TokenSpan, session_of
from turnwise.observers.local.observer import utterances
from turnwise.observers.local.reading import Speech
from turnwise.observers.local.weights import load_weights, shipped
from turnwise.principles import builtin_principles

LENGTHS = ((30, 16), (100, 8), (300, 4), (896, 2))
"""Tokens of a window, and windows of a batch."""

ROUNDS = 3
SHORT = 60
"""Tokens of a pass below which a batch dimension might pay."""

PART_ROWS = 2_000
PROMPTS = tuple(Request(principle, Side.PROMPT) for principle in builtin_principles())
BOTH = tuple(Request(principle, side) for side in Side for principle in builtin_principles())


def with_batches(model: bytes) -> bytes:
    """Return the shipped graph with a batch dimension; texts lie in all windows one behind the other."""
    import onnx
    from onnx import helper, numpy_helper

    graph = onnx.load_from_string(model)
    for one in graph.graph.input:
        if one.name == "ids" or one.name.startswith(("past_", "length_less")):
            one.type.tensor_type.shape.dim[0].dim_param = "batch"
    for one in graph.graph.output[1:]:
        one.type.tensor_type.shape.dim[0].dim_param = "batch"
    place, squeeze = next((n, node) for n, node in enumerate(graph.graph.node) if node.op_type == "Squeeze")
    width = next(one.dims[-1] for one in graph.graph.initializer if one.name == "norm.weight")
    graph.graph.initializer.append(numpy_helper.from_array(np.array([-1, width], np.int64), "flat_shape"))
    flat = helper.make_node("Reshape", [squeeze.input[0], "flat_shape"], squeeze.output)
    graph.graph.node.remove(squeeze)
    graph.graph.node.insert(place, flat)
    del graph.graph.value_info[:]
    return bytes(graph.SerializeToString())


def measure_batch() -> None:
    """Print tokens a second with one window a pass and with several."""
    weights = load_weights(shipped("local"))
    single, session = Network(weights.model), session_of(with_batches(weights.model))
    past = [one for one in session.get_inputs() if one.name.startswith("past_")]
    rng = np.random.default_rng(0)
    for length, windows in LENGTHS:
        ids = rng.integers(100, 40_000, (windows, length))
        feed: dict[str, Any] = {
            "ids": ids,
            "mean": np.kron(np.eye(windows), np.full((1, length), 1 / length)).astype(np.float32),
            "last": np.arange(1, windows + 1) * length - 1,
            "length_less_one": np.full(windows, length - 1, np.int32),
            "length": np.array([length], np.int32),
        }
        for one in past:
            feed[one.name] = np.zeros((windows, int(one.shape[1]), 0, int(one.shape[3])), np.float32)
        each: list[list[int]] = ids.tolist()

        def together(feed: dict[str, Any] = feed) -> Any:
            return session.run(["logits"], feed)[0]

        def apart(each: list[list[int]] = each) -> Any:
            return np.concatenate([single.run(one, [TokenSpan(0, len(one))])[0] for one in each])

        difference = float(np.abs(together() - apart()).max())
        ratios, rates = [], []
        for _ in range(ROUNDS):
            rates.append(windows * length / _seconds(apart))
            ratios.append(rates[-1] * _seconds(together) / (windows * length))
        print(
            f"{length:4d} tokens: {median(rates):6.0f} tokens/s a window a pass; {windows} windows a pass "
            f"{1 / median(ratios):.3f} times that ({1 / max(ratios):.3f} to {1 / min(ratios):.3f}); "
            f"logits differ by {difference:.0e}"
        )


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def read(file: Path) -> list[list[Turn]]:
    """Return the conversations of a file in the format of the development data."""
    talks = []
    for line in file.read_text(encoding="utf-8").splitlines():
        said: list[list[str | None]] = []
        for message in json.loads(line)["turns"]:
            if message["role"] == "user":
                said.append([message["content"], None])
            elif said:
                said[-1][1] = message["content"]
        talks.append([Turn(number, prompt or "", reply) for number, (prompt, reply) in enumerate(said, start=1)])
    return talks


class _Counting(Network):
    """A network that reads nothing."""

    runs = short = 0

    def run(
        self, tokens: Sequence[int], spans: Sequence[TokenSpan], before: Cache | None = None
    ) -> tuple[Any, Cache]:
        self.runs += 1
        self.short += len(tokens) * (len(tokens) < SHORT)
        return np.zeros((len(spans), 2, 10), np.float32), Cache((), (before.length if before else 0) + len(tokens))


def measure_repeats(files: Sequence[Path]) -> None:
    """Print what repeats within parts."""
    weights = load_weights(shipped("local"))
    speech, network = Speech(weights.tokenizer), _Counting.__new__(_Counting)
    for file in files:
        talks = read(file)
        texts = Counter[str]()
        repeated = 0
        for part in _parts(talks):
            seen = Counter(turn.prompt for turns in part for turn in turns)
            repeated += sum(seen.values()) - len(seen)
            texts.update(seen)
        for name, wanted in (("prompts", PROMPTS), ("both sides", BOTH)):
            told = alone = runs = short = 0
            for part in _parts(talks):
                said, _ = utterances(part, wanted, history=True)
                together = Passes(speech, network)
                together.read(said)
                told += together.tokens_read
                for one in said:
                    single = Passes(speech, network)
                    runs, short = runs - network.runs, short - network.short
                    single.read([one])
                    runs, short = runs + network.runs, short + network.short
                    alone += single.tokens_read
            print(
                f"{file.name}: {len(talks)} conversations, {sum(texts.values())} prompts, "
                f"{repeated / sum(texts.values()):.2%} of them repeat another of their part; {name} scored: "
                f"{alone / len(talks):.0f} tokens a conversation in {runs / len(talks):.2f} passes, "
                f"{1 - told / alone:.2%} of the tokens are not read again, {short / alone:.1%} of them lie in "
                f"passes of fewer than {SHORT}"
            )


def _parts(talks: list[list[Turn]]) -> Iterator[list[list[Turn]]]:
    return (talks[at : at + PART_ROWS] for at in range(0, len(talks), PART_ROWS))


class _OneByOne:
    """An observer that takes one conversation at a time."""

    def __init__(self, observer: LocalObserver) -> None:
        self.info, self.parameters = observer.info, observer.parameters
        self.start, self.observe = observer.start, observer.observe


def measure_many(files: Sequence[Path], rows: int) -> None:
    """Print what reading at once saves."""
    for kind in (LocalObserver, LocalSmallObserver):
        for file in files:
            talks = read(file)[:rows]
            for name, wanted in (("prompts", PROMPTS), ("both sides", BOTH)):
                seconds, scores = [], []
                for observer in (_OneByOne(kind()), kind()):
                    began = time.process_time()
                    found = observe_conversations(observer, talks, Context.parse("history"), wanted)
                    seconds.append(time.process_time() - began)
                    scores.append(found.scores)
                difference = float(np.abs(scores[0] - scores[1]).max())
                print(
                    f"{kind.name}, {file.name}, {len(talks)} conversations, {name} scored: {seconds[0]:.2f} s "
                    f"turn by turn, {seconds[1]:.2f} s at once ({seconds[0] / seconds[1]:.2f} times as fast); "
                    f"scores differ by {difference:.0e}"
                )


def main() -> None:
    """Measure a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("batch", "repeats", "many"), required=True)
    parser.add_argument("--data", type=Path, nargs="*", default=[])
    parser.add_argument("--rows", type=int, default=40)
    given = parser.parse_args()
    if given.part == "batch":
        measure_batch()
    elif given.part == "repeats":
        measure_repeats(given.data)
    else:
        measure_many(given.data, given.rows)


if __name__ == "__main__":
    main()
