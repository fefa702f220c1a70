"""The weights file of the local observer: written by training, checked to the last byte before it is used.

A folder holds three files: ``weights.safetensors`` (the arrays, in the safetensors layout, read here without
that package and without unpickling anything), ``tokenizer.json``, and ``metrics.json`` (how they were made and
measured).
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.errors import ObserverError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "turnwise-local-observer"
FORMAT_VERSION = "3"
WEIGHTS_FILE = "weights.safetensors"
TOKENIZER_FILE = "tokenizer.json"
METRICS_FILE = "metrics.json"
SHIPPED = Path(__file__).parent / "weights"

PRINCIPLES = ("reciprocity", "context_integrity", "third_party_harm")
"""The principles that the observer knows, in the order of its outputs."""

ARMS = ("history", "turn")
"""The context modes, each with its own network over the shared token table."""

FEATURES = ("disagreement", "distance", "unfamiliar", "evasion", "brevity")
"""What indeterminacy is made of, in the order of its weights."""

CALIBRATION = ("logit", "bent", "offset")
"""What a calibrated logit is a weighted sum of: the logit, the logit cut off at either side, and 1."""

_TYPES = {"F32": "<f4", "F16": "<f2", "I8": "|i1"}
_HEADER_LIMIT = 1_000_000
_RETRAIN = "retrain with turnwise train, or use the shipped weights"


@dataclass(frozen=True, slots=True)
class Weights:
    """Checked contents of a weights folder.

    Args:
        arrays: the arrays by name, read-only.
        tokenizer: text of the tokeniser file.
        metrics: how the weights were made and measured.
        sha256: hash of weights and tokeniser together, 64 hex digits.
        members: networks in the ensemble.
        width: width of a network's turn vector and of its state.
    """

    arrays: Mapping[str, NDArray[Any]]
    tokenizer: str
    metrics: Mapping[str, Any]
    sha256: str
    members: int
    width: int


SIZES = ("tokens", "dimensions", "narrow", "phrases", "members", "width", "centroids")
"""What the header says of the sizes of the arrays: entries of the vocabulary; length of a token vector, and of its
narrow form that phrases are made of; phrases looked for; networks in each ensemble; width of a network's turn
vector and of its state; reference points of the training data."""


def shapes(sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shape that each array must have.

    Args:
        sizes: a number for each of `SIZES`.
    """
    tokens, dimensions, narrow, phrases, members, width, centroids = (sizes[name] for name in SIZES)
    outputs = 2 * len(PRINCIPLES)
    expected: dict[str, tuple[int, ...]] = {
        "table": (tokens, dimensions),
        "table_scale": (tokens,),
        "token_weight": (tokens,),
        "phrase.project": (dimensions, narrow),
        "phrase.taps": (3, narrow, phrases),
        "phrase.bias": (phrases,),
        "centroids": (centroids, dimensions),
    }
    for arm in ARMS:
        expected |= {
            f"{arm}.project": (members, dimensions + phrases, width),
            f"{arm}.project_bias": (members, width),
            f"{arm}.input": (members, width, 3 * width),
            f"{arm}.input_bias": (members, 3 * width),
            f"{arm}.recurrent": (members, width, 3 * width),
            f"{arm}.recurrent_bias": (members, 3 * width),
            f"{arm}.heads": (members, 2 * width, outputs),
            f"{arm}.heads_bias": (members, outputs),
            f"{arm}.calibration": (outputs, len(CALIBRATION)),
            f"{arm}.indeterminacy": (len(PRINCIPLES), len(FEATURES) + 1),
            f"{arm}.patience": (2,),
        }
    return expected


def dump_arrays(arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, str]) -> bytes:
    """Return arrays in the safetensors layout.

    Args:
        arrays: float32, float16 or int8 arrays by name.
        settings: text values for the header; format and version are added.
    """
    codes = {dtype: code for code, dtype in _TYPES.items()}
    header: dict[str, Any] = {
        "__metadata__": {"format": FORMAT, "version": FORMAT_VERSION, **settings},
    }
    blocks = []
    offset = 0
    for name, array in sorted(arrays.items()):
        block = array.tobytes()
        header[name] = {
            "dtype": codes[array.dtype.newbyteorder("<").str],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(block)],
        }
        blocks.append(block)
        offset += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((struct.pack("<Q", len(text)), text, *blocks))


def load_weights(folder: Path | str | None = None) -> Weights:
    """Read and check a weights folder.

    Args:
        folder: the folder; None for the weights that ship with turnwise.

    Raises:
        ObserverError: a file is missing, truncated, altered, of another version or not one of ours.
    """
    place = Path(folder) if folder is not None else SHIPPED
    blob = _read(place / WEIGHTS_FILE)
    tokenizer = _read(place / TOKENIZER_FILE)
    metrics = _parse_metrics(place / METRICS_FILE)
    header, start = _parse_header(blob, place / WEIGHTS_FILE)
    settings = _check_settings(header.pop("__metadata__", None), place / WEIGHTS_FILE)
    arrays = _arrays(blob, header, start, place / WEIGHTS_FILE)
    sizes = _check_shapes(arrays, settings, place / WEIGHTS_FILE)
    digest = weights_hash(blob, tokenizer)
    recorded = metrics.get("weights_sha256")
    if digest != recorded:
        raise ObserverError(
            f"{place}: {WEIGHTS_FILE} and {TOKENIZER_FILE} have hash {digest[:12]}, {METRICS_FILE} records "
            f"{str(recorded)[:12]}: the files do not belong together or were altered; copy the folder again, "
            f"or {_RETRAIN}"
        )
    return Weights(arrays, tokenizer.decode("utf-8"), metrics, digest, *sizes)


def weights_hash(weights: bytes, tokenizer: bytes) -> str:
    """Return the hash that names a set of weights: of the weights file followed by the tokeniser file."""
    return hashlib.sha256(weights + tokenizer).hexdigest()


def read_metrics(folder: Path | str | None = None) -> Mapping[str, Any]:
    """Return the metrics of a weights folder without loading the weights.

    Raises:
        ObserverError: there is no metrics file, or it is none of ours.
    """
    return _parse_metrics((Path(folder) if folder is not None else SHIPPED) / METRICS_FILE)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ObserverError(
            f"{path}: {error.strerror or error}; a weights folder of the local observer holds {WEIGHTS_FILE}, "
            f"{TOKENIZER_FILE} and {METRICS_FILE}: give such a folder, as in local:path/to/model"
        ) from error


def _parse_metrics(path: Path) -> dict[str, Any]:
    try:
        metrics = json.loads(_read(path))
    except ValueError as error:
        raise ObserverError(f"{path}: no JSON ({error}); {_RETRAIN}") from error
    if not isinstance(metrics, dict) or metrics.get("format") != FORMAT:
        raise ObserverError(f"{path}: not written by the training of the local observer; {_RETRAIN}")
    try:
        thresholds = [
            float(point["threshold"])
            for points in metrics["operating_points"].values()
            for point in points.values()
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ObserverError(
            f"{path}: operating points are missing or no numbers ({error!r}); {_RETRAIN}"
        ) from error
    if not (all(map(math.isfinite, thresholds)) and isinstance(metrics.get("weights_sha256"), str)):
        raise ObserverError(f"{path}: hash of the weights or a finite threshold is missing; {_RETRAIN}")
    return metrics


def _parse_header(blob: bytes, path: Path) -> tuple[dict[str, Any], int]:
    foreign = ObserverError(f"{path}: no weights file of the local observer; {_RETRAIN}")
    if len(blob) < 8:
        raise foreign
    (length,) = struct.unpack_from("<Q", blob)
    if not 2 <= length <= min(_HEADER_LIMIT, len(blob) - 8):
        raise foreign
    try:
        header = json.loads(blob[8 : 8 + length])
    except ValueError as error:
        raise foreign from error
    if not isinstance(header, dict):
        raise foreign
    return header, 8 + length


def _check_settings(settings: object, path: Path) -> dict[str, Any]:
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        raise ObserverError(f"{path}: weights of something other than the local observer; {_RETRAIN}")
    if settings.get("version") != FORMAT_VERSION:
        raise ObserverError(
            f"{path}: weights format {settings.get('version')!r}, this turnwise reads {FORMAT_VERSION!r}; "
            f"{_RETRAIN}"
        )
    if settings.get("principles") != ",".join(PRINCIPLES):
        raise ObserverError(f"{path}: trained for other principles ({settings.get('principles')}); {_RETRAIN}")
    return settings


def _arrays(blob: bytes, header: Mapping[str, Any], start: int, path: Path) -> dict[str, NDArray[Any]]:
    import numpy as np

    arrays = {}
    for name, entry in header.items():
        try:
            dtype = np.dtype(_TYPES[entry["dtype"]])
            shape = tuple(int(size) for size in entry["shape"])
            begin, end = (int(offset) for offset in entry["data_offsets"])
        except (KeyError, TypeError, ValueError) as error:
            raise ObserverError(f"{path}: array {name!r} is described wrongly ({error}); {_RETRAIN}") from error
        if begin < 0 or end - begin != math.prod(shape) * dtype.itemsize or any(size < 1 for size in shape):
            raise ObserverError(f"{path}: array {name!r} has a shape that does not fit its bytes; {_RETRAIN}")
        if start + end > len(blob):
            raise ObserverError(f"{path}: truncated in array {name!r}; copy the file again, or {_RETRAIN}")
        arrays[name] = np.frombuffer(blob, dtype, math.prod(shape), start + begin).reshape(shape)
    return arrays


def _check_shapes(
    arrays: Mapping[str, NDArray[np.generic]], settings: Mapping[str, Any], path: Path
) -> tuple[int, int]:
    try:
        sizes = {name: int(settings[name]) for name in SIZES}
    except (KeyError, ValueError) as error:
        raise ObserverError(f"{path}: the header lacks a size ({error}); {_RETRAIN}") from error
    expected = shapes(sizes)
    for name, shape in expected.items():
        found = arrays[name].shape if name in arrays else None
        if found != shape:
            raise ObserverError(f"{path}: array {name!r} has shape {found}, not {shape}; {_RETRAIN}")
    return sizes["members"], sizes["width"]
