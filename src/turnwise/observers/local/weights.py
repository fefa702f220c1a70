"""The weights folder of the reader: written by training, checked to the last byte before it is used.

It holds ``reader.onnx.gz`` (the network), ``tokenizer.json`` and ``metrics.json`` (calibration, operating points,
and how all of it was made and measured). ``people.jsonl`` may stand beside them: what these weights make of what
people wrote or judged.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.errors import ObserverError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = "turnwise-reader"
FORMAT_VERSION = "1"
MODEL_FILE = "reader.onnx.gz"
TOKENIZER_FILE = "tokenizer.json"
METRICS_FILE = "metrics.json"
PEOPLE_FILE = "people.jsonl"
SHIPPED = ("local", "local-small")
"""Observers whose weights ship with turnwise."""

KINDS = ("language", "small")
"""Kinds of networks: those of `language_model_reader` and of `small_reader`."""

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
"""The principles that the reader knows, in the order of its outputs."""

LANGUAGES = ("en",)
"""Languages that weights read whose metrics do not say."""

NAMED = ("kind", "principles", "calibration", "operating_points")
"""What of the metrics is part of the weights."""

LEAST, POSITIONS = 16, 4_096
"""Tokens of each size of a reader's reach at least, and positions that a network has at most."""

CACHE_BYTES = 256_000_000
"""Bytes that the caches of all live conversations may take together."""

_AGAIN = "copy the folder again, or use the shipped weights"


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a reader looks back and what of long texts it keeps, in tokens: part of its weights.

    Args:
        limit: what the window holds at most.
        kept: what stays when it moves, at most: the further it moves, the more seldom it is read anew.
        prompt: what of a prompt stays in the window for later texts: of a longer one its head and its tail.
        reply: likewise of a reply.
        part: a longer text is scored in parts, the highest F of which counts, so that what is long does not thin
            out what is short in it.
        most: what is read of a text at all; of a longer one its head and its tail.
    """

    limit: int = 1_536
    kept: int = 1_024
    prompt: int = 384
    reply: int = 128
    part: int = 256
    most: int = 2_000


UNSAID = Reach(limit=896, kept=512, prompt=128, reply=48, part=128, most=1_920)
"""That of weights that don't say: those of `local-small`, which has no window and reads no more of a text."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Checked contents of a weights folder; `model` is the network in ONNX format, `sha256` the `weights_hash`."""

    model: bytes
    tokenizer: Tokenizer
    metrics: Mapping[str, Any]
    sha256: str

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return str(self.metrics["kind"])

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that they read; texts in others get no score."""
        return tuple(self.metrics.get("languages", LANGUAGES))

    @property
    def reach(self) -> Reach:
        """How far the reader looks back."""
        return reach_of(self.metrics)


def reach_of(metrics: Mapping[str, Any]) -> Reach:
    """How far a reader with these metrics looks back; `ValueError` where the sizes don't fit one another."""
    if "reach" not in metrics:
        return UNSAID
    try:
        reach = Reach(**metrics["reach"])
        sizes = list(asdict(reach).values())
        fits = max(reach.prompt, reach.reply) < reach.kept <= reach.limit and min(sizes) >= LEAST
    except TypeError as error:
        raise ValueError(f"reach is {metrics['reach']!r}: {error}") from error
    if not fits or max(sizes) > POSITIONS or any(type(size) is not int for size in sizes):
        raise ValueError(f"reach is {metrics['reach']!r}: these sizes don't fit one another")
    return reach


def shipped(name: str) -> Path:
    """The folder of the weights that ship for an observer, ``local`` or ``local-small``."""
    return Path(__file__).parent / "weights" / name


def load_weights(folder: Path | str) -> Weights:
    """Read a weights folder, and check that no file is missing, altered, of another version or not ours."""
    from tokenizers import Tokenizer

    place = Path(folder)
    metrics = read_metrics(place)
    model, vocabulary = _unpacked(place / MODEL_FILE), _read(place / TOKENIZER_FILE)
    digest = weights_hash(model, vocabulary, metrics)
    if digest != metrics["weights_sha256"]:
        raise ObserverError(
            f"{place}: {MODEL_FILE}, {TOKENIZER_FILE}, calibration and operating points have hash {digest[:12]}, "
            f"{METRICS_FILE} records {metrics['weights_sha256'][:12]}: the files do not belong together or were "
            f"altered; {_AGAIN}"
        )
    return Weights(model, Tokenizer.from_str(vocabulary.decode("utf-8")), metrics, digest)


def weights_hash(model: bytes, tokenizer: bytes, metrics: Mapping[str, Any]) -> str:
    """The hash that names a set of weights, 64 hex digits: over all that scores and verdicts depend on."""
    digest = hashlib.sha256()
    names = [*NAMED, *(name for name in ("reach", "languages") if name in metrics)]
    named = json.dumps([metrics[name] for name in names], sort_keys=True).encode()
    for part in (model, tokenizer, named):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def read_metrics(folder: Path | str) -> Mapping[str, Any]:
    """The metrics of a weights folder, checked, without loading the weights."""
    return _parse(Path(folder) / METRICS_FILE)


def card_data(folder: Path | str) -> Mapping[str, Any]:
    """The metrics of a weights folder, with what the same weights make of people's texts if that is there."""
    metrics, path = read_metrics(folder), Path(folder) / PEOPLE_FILE
    if not path.exists():
        return metrics
    try:
        head, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        known = head["weights_sha256"] == metrics["weights_sha256"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ObserverError(f"{path}: not as benchmarks/people.py writes it ({error!r}); {_AGAIN}") from error
    return {**metrics, "people": rows} if known else metrics


def save_weights(folder: Path, model: bytes, tokenizer: str, metrics: Mapping[str, Any]) -> None:
    """Write a weights folder, the same files for the same weights; format and hash are added to the metrics."""
    digest = weights_hash(model, tokenizer.encode(), metrics)
    known = {"format": FORMAT, "version": FORMAT_VERSION, **metrics, "weights_sha256": digest}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL_FILE).write_bytes(gzip.compress(model, 9, mtime=0))
    (folder / TOKENIZER_FILE).write_text(tokenizer, encoding="utf-8")
    (folder / METRICS_FILE).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(_read(path))
    except (OSError, EOFError, zlib.error) as error:
        raise ObserverError(f"{path}: it is cut off or was altered ({error}); {_AGAIN}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ObserverError(
            f"{path}: {error.strerror or error}; a weights folder of the reader holds {MODEL_FILE}, "
            f"{TOKENIZER_FILE} and {METRICS_FILE}: give such a folder, as in local:path/to/model"
        ) from error


def _parse(path: Path) -> dict[str, Any]:
    try:
        metrics = json.loads(_read(path))
    except ValueError as error:
        raise ObserverError(f"{path}: no JSON ({error}); {_AGAIN}") from error
    if not isinstance(metrics, dict) or metrics.get("format") != FORMAT:
        raise ObserverError(f"{path}: not written by the training of the reader; {_AGAIN}")
    if metrics.get("version") != FORMAT_VERSION:
        raise ObserverError(
            f"{path}: weights format {metrics.get('version')!r}, this turnwise reads {FORMAT_VERSION!r}; {_AGAIN}"
        )
    if metrics.get("kind") not in KINDS:
        raise ObserverError(f"{path}: unknown kind of network {metrics.get('kind')!r}; {_AGAIN}")
    languages = metrics.get("languages", [*LANGUAGES])
    if not (isinstance(languages, list) and languages and all(isinstance(one, str) and one for one in languages)):
        raise ObserverError(f"{path}: languages is {languages!r}, not a list of codes such as en; {_AGAIN}")
    try:
        reach_of(metrics)
    except ValueError as error:
        raise ObserverError(f"{path}: {error}; {_AGAIN}") from error
    if metrics.get("principles") != list(PRINCIPLES):
        raise ObserverError(f"{path}: trained for other principles ({metrics.get('principles')}); {_AGAIN}")
    try:
        numbers = [
            float(point["threshold"])
            for points in metrics["operating_points"].values()
            for point in points.values()
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ObserverError(f"{path}: operating points are missing or no numbers ({error!r}); {_AGAIN}") from error
    whole = isinstance(metrics.get("weights_sha256"), str) and isinstance(metrics.get("calibration"), dict)
    if not (all(map(math.isfinite, numbers)) and whole):
        raise ObserverError(f"{path}: hash, calibration or a finite threshold is missing; {_AGAIN}")
    return metrics
