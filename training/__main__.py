"""Make the weights of the embedded observers.

    python -m training --data PATH_TO_DATA --out FOLDER [--kind small]

Reads judged conversations (the corpus's and the permitted ones of the data folder), trains, blends, quantises,
calibrates, and writes ``reader.onnx.gz``, ``tokenizer.json`` and ``metrics.json``: the weights of ``local``, or
with ``--kind small`` those of ``local-small``. ``--begin`` goes on from weights that there are, such as those of
the last release. Interrupted, the same command goes on from the last checkpoint.

    python -m training --data PATH_TO_DATA --points FOLDER

sets the operating points of trained weights anew, and leaves all else as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from training import small
from training.base import Base, read_base
from training.blend import blend, unpacked
from training.calibrate import SERVICE, calibrate, operating_points, rows_of, service
from training.conversations import Conversations, read_conversations
from training.examples import TRAIN
from training.fit import CHECKPOINT, Settings, Trainer
from training.graph import Shape, build
from training.network import Reader as Network
from training.ordinary import read_ordinary
from training.samples import Sampler
from training.spread import Spread, over_processes
from turnwise.observers.local.reading import SIDES, Speech
from turnwise.observers.local.scores import Calibration
from turnwise.observers.local.weights import KINDS, PRINCIPLES, TOKENIZER_FILE, UNSAID, load_weights, save_weights


def main() -> None:
    """Train and write."""
    kinds = {"language": Settings, "small": small.Settings}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="data folder with MANIFEST.json")
    parser.add_argument("--out", type=Path, help="folder for weights and checkpoint")
    parser.add_argument("--points", type=Path, metavar="FOLDER", help="set operating points of these weights anew")
    parser.add_argument(
        "--languages", nargs="+", metavar="CODE", help="with --points: the languages that these weights read"
    )
    parser.add_argument("--kind", choices=KINDS, default="language")
    parser.add_argument(
        "--blend", nargs="+", type=Path, metavar="FOLDER", help="train nothing: blend the weights in these folders"
    )
    parser.add_argument("--begin", type=Path, metavar="FOLDER", help="go on from the weights in this folder")
    known, _ = parser.parse_known_args()
    for one in fields(kinds[known.kind]):
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(one.default), default=one.default)
    arguments = vars(parser.parse_args())
    data, out, kind, folders, begun, pointed, languages = (
        arguments.pop(name) for name in ("data", "out", "kind", "blend", "begin", "points", "languages")
    )
    if (out is None) == (pointed is None):
        parser.error("name a folder to write to: --out, or --points for weights that there are")
    if pointed is not None:
        point(pointed, data, languages)
        return
    if (folders or begun) and kind != "language":
        parser.error("--blend and --begin are for weights of --kind language")
    out.mkdir(parents=True, exist_ok=True)
    settings = kinds[kind](**arguments)
    base, conversations = read_base(), read_conversations(data)
    say(f"{len(conversations.examples)} judged conversations")
    reach = settings.reach if isinstance(settings, Settings) else UNSAID
    speech = Speech(Tokenizer.from_str(base.tokenizer), reach)
    if folders:
        model, fitted = blended(base, folders, settings.layers, settings.frozen)
    elif isinstance(settings, Settings):
        model, fitted = train_language(base, begun, conversations, data, speech, settings, out)
    else:
        sampler = Sampler(speech, conversations.of(TRAIN), random.Random(settings.seed))
        network, fitted = small.fit_small(base.arrays["embed"], sampler, speech, settings, say)
        model = small.build_small(network)
    say("trained; calibration follows")
    with over_processes(kind, model, base.tokenizer, reach, os.cpu_count() or 1) as spread:
        metrics = calibrated(spread, conversations, data)
    metrics |= {
        "kind": kind,
        **({"reach": asdict(reach)} if reach != UNSAID else {}),
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


def point(folder: Path, data: Path, languages: Sequence[str] | None) -> None:
    """Set the operating points of trained weights anew."""
    weights = load_weights(folder)
    metrics, tokenizer = dict(weights.metrics), (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
    calibration = Calibration.read(metrics["calibration"])
    with over_processes(metrics["kind"], weights.model, tokenizer, weights.reach, os.cpu_count() or 1) as spread:
        metrics["operating_points"] = operating_points(spread, calibration, service(data))
    metrics["operating_points_on"] = SERVICE
    if languages:
        metrics["languages"] = list(languages)
    save_weights(folder, weights.model, tokenizer, metrics)
    say(f"operating points of {folder} set on {SERVICE}")


def say(line: str) -> None:
    """Print a line of progress at once."""
    print(line, flush=True)


def train_language(
    base: Base,
    begun: Path | None,
    conversations: Conversations,
    data: Path,
    speech: Speech,
    settings: Settings,
    out: Path,
) -> tuple[bytes, dict[str, Any]]:
    """Tune the language model and return its graph, and how training went."""
    shape, arrays, made_of = Shape(settings.layers), base.arrays, {"code": code_hash(), "base": base.source}
    if begun is not None:
        weights = load_weights(begun)
        arrays = unpacked(weights.model, base.arrays, settings.frozen)
        made_of["begun"] = weights.sha256
    made_of["data"] = dict(conversations.hashes)
    torch.manual_seed(settings.seed)  # heads that are new begin at random
    network = Network(arrays, shape, settings.frozen)
    torch._dynamo.config.recompile_limit = 64  # one program for each mode: frozen, trained, rounded, searching
    for layer in network.layers:
        layer.compile(dynamic=True)  # halves a step; asks for a C++ compiler
    ordinary = list(read_ordinary(data, conversations.examples))
    say(f"{len(ordinary)} ordinary conversations that nobody read")

    def sampler(seed: int) -> Sampler:
        return Sampler(speech, conversations.of(TRAIN), random.Random(seed))

    fitted = Trainer(network, sampler, ordinary, speech, settings, out, say, made_of).train()
    if begun is not None:
        fitted["begun"] = made_of["begun"]
    return build(network.to_arrays(), shape), fitted


def blended(base: Base, folders: Sequence[Path], layers: int, frozen: int) -> tuple[bytes, dict[str, Any]]:
    """Return the graph of the blend of trained weights, and which they were."""
    weights = [load_weights(folder) for folder in folders]
    networks = [unpacked(one.model, base.arrays, frozen) for one in weights]
    fits = [one.metrics["fitted"] for one in weights]
    return build(blend(networks), Shape(layers)), {
        "steps": sum(one["steps"] for one in fits),
        "seconds": sum(one["seconds"] for one in fits),
        "loss": round(sum(one["loss"] for one in fits) / len(fits), 4),
        "blended": {one.sha256: one.metrics["fitted"] for one in weights},
    }


def calibrated(spread: Spread, conversations: Conversations, data: Path) -> dict[str, Any]:
    """Return calibration and operating points, with what they rest on."""
    judged = conversations.of("dev", "operating")
    rows = [rows_of(spread, judged, mode) for mode in ("history", "replies")]
    record = calibrate(rows).to_record()
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
