"""Make the weights of the reader.

    python -m training --data PATH_TO_DATA --out FOLDER

Reads judged conversations (the corpus's and the permitted ones of the data folder), trains, quantises, calibrates,
and writes ``reader.onnx``, ``tokenizer.json`` and ``metrics.json``. Interrupted, it goes on from its last
checkpoint when it is run again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from training.base import read_base
from training.calibrate import SERVICE, fit_calibration, operating_points, rows_of, service
from training.conversations import read_conversations
from training.fit import CHECKPOINT, Settings, fit
from training.graph import Shape, build
from training.network import Reader as Network
from training.samples import Sampler
from turnwise.observers.reader.language import LanguageReader
from turnwise.observers.reader.tokens import Speech
from turnwise.observers.reader.weights import (
    FORMAT,
    FORMAT_VERSION,
    METRICS_FILE,
    MODEL_FILE,
    PRINCIPLES,
    TOKENIZER_FILE,
    weights_hash,
)


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="data folder with MANIFEST.json")
    parser.add_argument("--out", type=Path, required=True, help="folder for weights and checkpoint")
    for one in fields(Settings):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(one.default), default=one.default)
    arguments = vars(parser.parse_args())
    data, out = arguments.pop("data"), arguments.pop("out")
    out.mkdir(parents=True, exist_ok=True)
    train(data, out, Settings(**arguments))


def train(data: Path, out: Path, settings: Settings) -> None:
    """Train, quantise, calibrate and write.

    Args:
        data: the data folder.
        out: folder for weights and checkpoint.
        settings: how.
    """
    base, conversations = read_base(), read_conversations(data)
    print(f"{len(conversations.examples)} judged conversations", flush=True)
    tokenizer = Tokenizer.from_str(base.tokenizer)
    sampler = Sampler(Speech(tokenizer), conversations.of("train"), random.Random(settings.seed))
    shape = Shape(settings.layers)
    network = Network(base.arrays, shape, settings.frozen)
    fitted = fit(network, sampler, settings, out, lambda line: print(line, flush=True))
    model = build(network.to_arrays(), shape)
    reader = LanguageReader(model, tokenizer)
    rows = list(rows_of(reader, conversations.of("dev", "operating"), "history"))
    calibration = fit_calibration(rows)
    record = calibration.to_record()
    metrics: dict[str, Any] = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "principles": list(PRINCIPLES),
        "base": base.source,
        "code_sha256": code_hash(),
        "data_sha256": dict(conversations.hashes),
        "settings": asdict(settings),
        "fitted": fitted,
        "calibration": record,
        "calibrated_on": {"texts": len(rows), "conversations": len({row.id for row in rows})},
        "operating_points": operating_points(reader, type(calibration).read(record), service(data)),
        "operating_points_on": SERVICE,
        "weights_sha256": weights_hash(model, base.tokenizer.encode(), record),
    }
    (out / MODEL_FILE).write_bytes(model)
    (out / TOKENIZER_FILE).write_text(base.tokenizer, encoding="utf-8")
    (out / METRICS_FILE).write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")
    (out / CHECKPOINT).unlink(missing_ok=True)
    print(f"wrote {out}: use it with --observer local:{out}", flush=True)


def code_hash() -> str:
    """Return the hash of the code that makes the weights."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main()
