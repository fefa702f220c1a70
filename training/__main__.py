"""Make the weights of the embedded observers.

    python -m training --data PATH_TO_DATA --out FOLDER [--kind small]

Reads judged conversations (the corpus's and the permitted ones of the data folder), trains, quantises, calibrates,
and writes ``reader.onnx.gz``, ``tokenizer.json`` and ``metrics.json``: the weights of ``local``, or with ``--kind
small`` those of ``local-small``. Interrupted, the former goes on from its last checkpoint when it is run again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from training import small
from training.base import Base, read_base
from training.calibrate import SERVICE, fit_side, operating_points, rows_of, service
from training.conversations import Conversations, read_conversations
from training.fit import CHECKPOINT, Settings, fit
from training.graph import Shape, build
from training.network import Reader as Network
from training.samples import Sampler
from training.spread import Spread, over_processes
from turnwise.observers.local.protocol import SIDES
from turnwise.observers.local.scores import Calibration
from turnwise.observers.local.tokens import Speech
from turnwise.observers.local.weights import KINDS, PRINCIPLES, save_weights


def main() -> None:
    """Train and write."""
    kinds = {"language": Settings, "small": small.Settings}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="data folder with MANIFEST.json")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights and checkpoint")
    parser.add_argument("--kind", choices=KINDS, default="language")
    known, _ = parser.parse_known_args()
    for one in fields(kinds[known.kind]):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(one.default), default=one.default)
    arguments = vars(parser.parse_args())
    data, out, kind = (arguments.pop(name) for name in ("data", "out", "kind"))
    out.mkdir(parents=True, exist_ok=True)
    settings = kinds[kind](**arguments)
    base, conversations = read_base(), read_conversations(data)
    say(f"{len(conversations.examples)} judged conversations")
    tokenizer = Tokenizer.from_str(base.tokenizer)
    sampler = Sampler(Speech(tokenizer), conversations.of("train"), random.Random(settings.seed))
    if isinstance(settings, Settings):
        made_of = {"code": code_hash(), "data": dict(conversations.hashes), "base": base.source}
        model, fitted = train_language(base, sampler, Speech(tokenizer), settings, out, made_of)
    else:
        network, fitted = small.fit_small(base.arrays["embed"], sampler, Speech(tokenizer), settings, say)
        model = small.build_small(network)
    say("trained; calibration follows")
    with over_processes(kind, model, base.tokenizer, os.cpu_count() or 1) as spread:
        metrics = calibrated(spread, conversations, data)
    metrics |= {
        "kind": kind,
        "principles": list(PRINCIPLES),
        "base": base.source,
        "code_sha256": code_hash(),
        "data_sha256": dict(conversations.hashes),
        "settings": asdict(settings),
        "fitted": fitted,
    }
    save_weights(out, model, base.tokenizer, metrics)
    (out / CHECKPOINT).unlink(missing_ok=True)
    say(f"wrote {out}: use it with --observer local:{out}")


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(line, flush=True)


def train_language(
    base: Base, sampler: Sampler, speech: Speech, settings: Settings, out: Path, made_of: Mapping[str, Any]
) -> tuple[bytes, dict[str, float]]:
    """Tune the language model and return its graph, and how training went.

    Args:
        base: the model as it was published.
        sampler: chooses what each epoch sees.
        speech: gives token ids.
        settings: how.
        out: folder for the checkpoint.
        made_of: hashes of what a checkpoint depends on.
    """
    shape = Shape(settings.layers)
    network = Network(base.arrays, shape, settings.frozen)
    fitted = fit(network, sampler, speech, settings, out, say, made_of)
    return build(network.to_arrays(), shape), fitted


def calibrated(spread: Spread, conversations: Conversations, data: Path) -> dict[str, Any]:
    """Return calibration and operating points, with what they rest on.

    Args:
        spread: does the reading, with the trained reader.
        conversations: judged conversations; those of the splits ``dev`` and ``operating`` calibrate.
        data: the data folder, with the service that sets operating points.
    """
    judged = conversations.of("dev", "operating")
    rows = [rows_of(spread, judged, mode) for mode in ("history", "replies")]
    calibration = Calibration(*(np.array(parts) for parts in zip(*map(fit_side, rows), strict=True)))
    record = calibration.to_record()
    return {
        "calibration": record,
        "calibrated_on": {
            str(side): {"texts": len(some), "conversations": len({row.id for row in some})}
            for side, some in zip(SIDES, rows, strict=True)
        },
        "operating_points": operating_points(spread, Calibration.read(record), service(data)),
        "operating_points_on": SERVICE,
    }


def code_hash() -> str:
    """Return the hash of the code that makes the weights."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
