"""Drills: short pairs written for training alone, and harmless talk without a pair, as training samples."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.errors import DatasetError
from turnwise.observers.local.training.data import percentile
from turnwise.observers.local.training.samples import OPEN, UNKNOWN, Labels, Sample, benign
from turnwise.observers.local.training.twins import SHARED_WEIGHT, TwinSamples
from turnwise.observers.local.weights import PRINCIPLES

HELD_OUT_DRILLS = 10
"""Per cent of the drills that calibrate, and are never fitted."""

ORDINARY_T = 0.95
"""T of an ordinary harmless turn in the twins' guideline."""

PLAIN_F = 0.5
"""From here a turn is plainly a breach, so that its T follows: what F leaves of `ORDINARY_T`."""


@dataclass(frozen=True, slots=True)
class Drills:
    """What a folder of drills holds.

    Args:
        names: name of each pair.
        pairs: the pairs, in file order.
        harmless: conversations without a pair.
        hashes: SHA-256 of each file by its name behind the corpus folder.
    """

    names: tuple[str, ...]
    pairs: tuple[TwinSamples, ...]
    harmless: tuple[Sample, ...]
    hashes: dict[str, str]


def read_drills(folder: Path) -> Drills:
    """Read every drill of a folder.

    Args:
        folder: folder of JSONL files. A line holds ``id``, ``attack`` and ``benign`` (user turns), ``harm_at`` and
            ``F``, by principle a value for every turn of the attack; or ``id`` and ``benign`` alone.

    Raises:
        DatasetError: no such folder, no drill in it, or a line that can't be read.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise DatasetError(f"{folder} has no drills: name the folder with the JSONL files, such as corpus/drills")
    names: list[str] = []
    pairs: list[TwinSamples] = []
    harmless: list[Sample] = []
    hashes = {}
    for path in files:
        blob = path.read_bytes()
        hashes[f"corpus/{folder.name}/{path.name}"] = hashlib.sha256(blob).hexdigest()
        for number, line in enumerate(blob.decode("utf-8").splitlines(), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if "attack" in row:
                    pairs.append(_pair(row))
                    names.append(str(row["id"]))
                else:
                    harmless.append(benign("drill_harmless", _texts(row["benign"])).last())
            except (ValueError, KeyError, TypeError) as error:
                raise DatasetError(f"{path}, line {number}: no drill ({error!r})") from error
    return Drills(tuple(names), tuple(pairs), tuple(harmless), hashes)


def is_held_out(name: str) -> bool:
    """Tell whether a drill serves calibration rather than fitting."""
    return percentile(name) < HELD_OUT_DRILLS


def _pair(row: dict[str, Any]) -> TwinSamples:
    attack, harmless = _texts(row["attack"]), _texts(row["benign"])
    shared = next(
        (turn for turn, (one, other) in enumerate(zip(attack, harmless, strict=False)) if one != other),
        min(len(attack), len(harmless)),
    )
    if shared == len(attack):
        raise ValueError("the halves do not differ")
    if not 1 <= int(row["harm_at"]) <= len(attack):
        raise ValueError(f"harm_at {row['harm_at']} is no turn of the attack")
    series = [[float(value) for value in row["F"][name]] for name in PRINCIPLES]
    if any(len(values) != len(attack) for values in series):
        raise ValueError(f"F needs {len(attack)} values for every principle")
    if not all(0 <= value <= 1 and math.isfinite(value) for values in series for value in values):
        raise ValueError("a value of F is outside [0, 1]")
    false = tuple(_labels(values) for values in zip(*series, strict=True))
    # Of an attack, the principles that no turn plainly breaks stay open for the conversation as a whole.
    conversation = _labels([1.0 if max(values) >= PLAIN_F else OPEN[0] for values in series])
    faith = tuple(_labels([_faith(value) for value in turn]) for turn in false)
    other = benign("drill_benign", harmless)
    return TwinSamples(
        Sample("drill_attack", attack, conversation, false, faith, turn_weights=_weights(attack, shared)).last(),
        Sample(
            "drill_benign",
            harmless,
            other.conversation,
            other.turns,
            ((ORDINARY_T,) * len(PRINCIPLES),) * len(harmless),  # type: ignore[arg-type]
            turn_weights=_weights(harmless, shared),
        ).last(),
    )


def _faith(false: float) -> float:
    """Return the target of T that follows from F, or `UNKNOWN` where F is neither none nor plain."""
    return max(0.02, ORDINARY_T - false) if false <= 0.05 or false >= PLAIN_F else UNKNOWN


def _weights(texts: Sequence[str], shared: int) -> tuple[float, ...]:
    return tuple(SHARED_WEIGHT if turn < shared else 1.0 for turn in range(len(texts)))


def _texts(values: object) -> tuple[str, ...]:
    if (
        not isinstance(values, list)
        or not values
        or not all(isinstance(text, str) and text.strip() for text in values)
    ):
        raise ValueError("turns are a list of texts, none of them empty")
    return tuple(values)


def _labels(values: Sequence[float]) -> Labels:
    first, second, third = values
    return first, second, third
