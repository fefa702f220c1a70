"""One training run, from a data folder to a weights folder."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

import turnwise
from turnwise.observers.local import weights as files
from turnwise.observers.local.network import Network
from turnwise.observers.local.training.ablation import Ablation
from turnwise.observers.local.training.compose import Composer
from turnwise.observers.local.training.data import Item, read_training_data
from turnwise.observers.local.training.export import check_agreement, export_arrays, nearest_points, pack, rounded
from turnwise.observers.local.training.fit import Report, Settings, fit
from turnwise.observers.local.training.libraries import load_library
from turnwise.observers.local.training.measure import (
    REAL_BENIGN,
    held_out_figures,
    set_calibration,
    traces_of,
    weighed,
)
from turnwise.observers.local.training.model import TorchModel
from turnwise.observers.local.training.pairs import PairMaterial, read_pair_material
from turnwise.observers.local.training.redteam import RED_TEAM, suspected
from turnwise.observers.local.training.samples import Sample, sample_of, stopped_early
from turnwise.observers.local.training.transfer import left_out_scores, transferable
from turnwise.observers.local.training.twins import TwinSamples
from turnwise.observers.local.training.vocabulary import initial_table, tokenizer_bytes, train_tokenizer
from turnwise.observers.local.weights import FORMAT, FORMAT_VERSION, PRINCIPLES

CENTROIDS = 64
AGREEMENT_SAMPLES = 200
HELD_OUT_SHARE = 0.2

FIRST_EPOCHS = 1
"""Epochs of the network that chooses among the red-team chats: which are the worst half shows early."""

FEWEST_TURNS = 4
"""Turns of a gradual attack that may stop early, at least."""

GRADUAL_KINDS = ("safemt_1k", "gradual_end")
"""Samples that are gradual attacks, or end in one."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a run reads.

    Args:
        data: data folder with a manifest.
        twins: folder of the twins corpus, its splits beside it; None to train without.
        drills: folder of the drills; None to train without.
        ablation: whether to measure on the dev split of the twins what each part of the data brings; takes three
            more trainings.
    """

    data: Path
    twins: Path | None = None
    drills: Path | None = None
    ablation: bool = False


@dataclass(frozen=True, slots=True)
class Material:
    """What a run learns from and is measured on.

    Args:
        fitted: samples to fit.
        held_out: samples that calibrate and set operating points, halves of pairs among them.
        pairs: pairs to fit, by corpus (``twins``, ``drills``).
        red_team: red-team chats, of which a first network chooses.
        permitted: texts that the vocabulary may use beside those of the samples.
        hashes: SHA-256 of each file read.
    """

    fitted: list[Sample]
    held_out: list[Sample]
    pairs: dict[str, list[list[TwinSamples]]]
    red_team: list[Item]
    permitted: list[str]
    hashes: dict[str, str]

    @property
    def texts(self) -> list[str]:
        """The texts of the fitted samples, in order."""
        return [text for sample in self.fitted for text in sample.texts]

    @property
    def groups(self) -> list[list[TwinSamples]]:
        """The pairs of all corpora, each in its forms."""
        return [group for groups in self.pairs.values() for group in groups]

    @property
    def halves(self) -> list[Sample]:
        """Both halves of every pair as they are."""
        return [half for group in self.groups for half in (group[0].attack, group[0].benign)]


def train(sources: Sources, out: Path, settings: Settings, report: Report) -> dict[str, Any]:
    """Train the observer and write a weights folder.

    Args:
        sources: what to read.
        out: folder to write to; made where it does not exist.
        settings: settings of the run.
        report: takes lines of progress.

    Returns:
        The metrics, as written.

    Raises:
        DatasetError: the data can't be read.
        ObserverError: the weights exported compute something else than was trained.
    """
    load_library("torch").set_num_threads(settings.threads)
    begin = time.perf_counter()
    material = read_material(sources, settings)
    held_out = material.held_out
    report(
        f"{len(material.fitted)} conversations and {len(material.groups)} pairs to fit, "
        f"{len(held_out)} conversations held out"
    )
    # The vocabulary is made without the pairs: their words would look familiar in no other conversation.
    tokenizer_blob = tokenizer_bytes(
        train_tokenizer(dict.fromkeys([*material.texts, *material.permitted]), settings.tokens)
    )
    tokenizer = Tokenizer.from_str(tokenizer_blob.decode("utf-8"))
    start = initial_table(tokenizer, material.texts, settings.dimensions)
    report(f"vocabulary of {len(start[0])} tokens, table filled, {time.perf_counter() - begin:.0f} s")
    chosen = chosen_red_team(material, tokenizer_blob, start, settings, report)
    material = replace(material, fitted=[*material.fitted, *chosen])
    model, losses = trained(material, tokenizer, start, settings, report)

    arrays = exported(model, tokenizer_blob, material, settings)
    network = Network(pack(arrays, tokenizer_blob, {})[1])
    difference = check_agreement(model, network, arrays, held_out[:: _stride(held_out)], tokenizer)
    report(f"exported, numpy and torch agree to {difference:.1e}")
    seen = traces_of(network, held_out)
    calibration = set_calibration(arrays, held_out, seen)
    blob, weights = pack(arrays, tokenizer_blob, {})
    figures = held_out_figures(Network(weights), held_out, seen)
    left_out = {}
    for source in REAL_BENIGN:
        report(f"once more without {source}, to see where the operating points lie for a service never seen")
        rest = without(sources, source, settings)
        rest = replace(rest, fitted=[*rest.fitted, *chosen])
        other, _ = trained(rest, tokenizer, start, settings, report)
        found = exported(other, tokenizer_blob, rest, settings)
        left_out[source] = left_out_scores(found, tokenizer_blob, rest.held_out, source)
    metrics: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "code_version": turnwise.__version__,
        "code_sha256": code_hash(),
        "principles": list(PRINCIPLES),
        "settings": asdict(settings),
        "data_sha256": material.hashes,
        "fitted": _counts([*material.fitted, *material.halves]),
        "held_out": _counts(held_out),
        "losses": [round(loss, 5) for loss in losses],
        "largest_difference_to_torch": difference,
        "calibration": calibration,
        **figures,
        "operating_points": transferable(figures["operating_points"], left_out),
        "weights_sha256": weights.sha256,
        "training_seconds": round(time.perf_counter() - begin),
    }
    blobs = {files.WEIGHTS_FILE: blob, files.TOKENIZER_FILE: tokenizer_blob}
    _write(out, blobs, metrics)
    if sources.ablation and sources.twins is not None:
        ablation = Ablation(tokenizer_blob, held_out, sources.twins)
        ablation.measure("all", arrays)
        for name, kept in (("without twins", ["drills"]), ("without drills", ["twins"]), ("without pairs", [])):
            report(f"once more {name}")
            part = replace(material, pairs={corpus: material.pairs[corpus] for corpus in kept})
            other, _ = trained(part, tokenizer, start, settings, report)
            ablation.measure(name, exported(other, tokenizer_blob, part, settings))
        metrics["ablation"] = ablation.figures
        _write(out, blobs, metrics)
    report(f"wrote {out}, {time.perf_counter() - begin:.0f} s in all")
    return metrics


def chosen_red_team(
    material: Material,
    tokenizer: bytes,
    start: tuple[NDArray[np.float32], NDArray[np.float32]],
    settings: Settings,
    report: Report,
) -> list[Sample]:
    """Return the red-team chats that a first network, trained without any of them, finds most harmful.

    Args:
        material: what that network learns from.
        tokenizer: bytes of the tokeniser file.
        start: first values of the table, and of the weights of its tokens.
        settings: settings of the run.
        report: takes lines of progress.
    """
    if not settings.red_team or not material.red_team:
        return []
    report("a first network, to choose among the red-team chats")
    brief = replace(settings, epochs=FIRST_EPOCHS)
    model, _ = trained(material, Tokenizer.from_str(tokenizer.decode("utf-8")), start, brief, report)
    arrays = exported(model, tokenizer, material, settings)
    seen = traces_of(Network(pack(arrays, tokenizer, {})[1]), material.held_out)
    set_calibration(arrays, material.held_out, seen)
    chosen = suspected(Network(pack(arrays, tokenizer, {})[1]), material.red_team, settings.red_team)
    report(f"{len(chosen)} of {len(material.red_team)} red-team chats chosen")
    return chosen


def trained(
    material: Material,
    tokenizer: Tokenizer,
    start: tuple[NDArray[np.float32], NDArray[np.float32]],
    settings: Settings,
    report: Report,
) -> tuple[TorchModel, list[float]]:
    """Return a trained model, its parameters rounded to what is exported, and the loss of each epoch.

    Args:
        material: what it learns from.
        tokenizer: the tokeniser.
        start: first values of the table, and of the weights of its tokens.
        settings: settings of the run.
        report: takes lines of progress.
    """
    load_library("torch").manual_seed(settings.seed)
    model = TorchModel(
        *start,
        narrow=settings.narrow,
        phrases=settings.phrases,
        members=settings.members,
        width=settings.width,
    )
    losses = fit(model, material.fitted, material.groups, tokenizer, settings, report)
    model.load_rounded(*rounded(export_arrays(model, CENTROIDS)))
    return model, losses


def exported(
    model: TorchModel, tokenizer: bytes, material: Material, settings: Settings
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model, calibration still neutral, reference points those of what it learned from.

    The reference points stand for a sample of all texts, and for those of the pairs.

    Args:
        model: the trained model.
        tokenizer: bytes of the tokeniser file.
        material: what it learned from.
        settings: settings of the run.
    """
    arrays = export_arrays(model, CENTROIDS, settings.patience_of_history)
    distinct = np.array(list(dict.fromkeys(material.texts)), object)
    drawn = np.random.default_rng(settings.seed).choice(distinct, 6_000)
    others = dict.fromkeys(text for half in material.halves for text in half.texts)
    network = Network(pack(arrays, tokenizer, {})[1])
    vectors = network.read_many([*drawn, *others]).vector
    arrays["centroids"] = nearest_points(vectors[:, : network.dimensions], CENTROIDS, settings.seed)
    return arrays


def read_material(sources: Sources, settings: Settings) -> Material:
    """Read and split what a run learns from.

    Args:
        sources: what to read.
        settings: settings of the run.

    Raises:
        DatasetError: the data can't be read.
    """
    items, hashes = read_training_data(sources.data)
    return _material(items, hashes, sources, settings)


def without(sources: Sources, source: str, settings: Settings) -> Material:
    """Return what a run learns from where one source of benign conversations is left out; held out is all of it.

    Args:
        sources: what to read.
        source: name of a training file, without folder and ending.
        settings: settings of the run.

    Raises:
        DatasetError: the data can't be read.
    """
    items, hashes = read_training_data(sources.data)
    material = _material([item for item in items if item.source != source], hashes, sources, settings)
    own = [sample for item in items if item.source == source and (sample := sample_of(item)) is not None]
    return replace(material, held_out=[*material.held_out, *(sample.last() for sample in own)])


def _material(items: Sequence[Item], hashes: dict[str, str], sources: Sources, settings: Settings) -> Material:
    fitted = collect(items, held_out=False, seed=settings.seed, share=settings.composed)
    held_out = collect(items, held_out=True, seed=settings.seed + 1, share=HELD_OUT_SHARE * settings.composed)
    permitted = [text for item in items if not item.held_out for text in (*item.texts, *item.reply_texts)]
    chats = [item.texts for item in items if not item.held_out and item.source in REAL_BENIGN]
    more: PairMaterial = read_pair_material(sources.twins, sources.drills, chats, settings.seed)
    gradual = [
        replace(sample, weight=settings.gradual * sample.weight) if sample.kind in GRADUAL_KINDS else sample
        for sample in fitted
    ]
    stopped = [
        stopped_early(sample, settings.stopped)
        for sample in gradual
        if sample.rising and len(sample.texts) >= FEWEST_TURNS
    ]
    return Material(
        [*gradual, *stopped, *more.harmless],
        weighed([*held_out, *more.held_out]),
        more.pairs,
        [item for item in items if item.source == RED_TEAM and not item.held_out],
        permitted,
        hashes | more.hashes,
    )


def collect(items: Sequence[Item], *, held_out: bool, seed: int, share: float) -> list[Sample]:
    """Return the samples of one side of the split: the data's own, then the composed ones.

    Args:
        items: all training items.
        held_out: which side.
        seed: seed of the composition.
        share: how many conversations are composed, as a share of ``compose.COUNTS``.
    """
    side = [item for item in items if item.held_out is held_out]
    own = [sample for item in side if (sample := sample_of(item)) is not None]
    composed = Composer(side, seed).compose(share)
    return [sample.last() for sample in (*own, *composed)]


def code_hash() -> str:
    """Return the hash of the source files that make the weights, in the order of their names."""
    here = Path(__file__).parent
    sources = [
        *sorted(here.glob("*.py")),
        *(here.parent / f"{name}.py" for name in ("network", "normalise", "tokens", "weights")),
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _write(out: Path, blobs: dict[str, bytes], metrics: dict[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, blob in blobs.items():
        (out / name).write_bytes(blob)
    (out / files.METRICS_FILE).write_text(json.dumps(metrics, indent=1) + "\n", encoding="utf-8")
    files.load_weights(out)


def _counts(samples: Sequence[Sample]) -> dict[str, int]:
    return dict(sorted(Counter(sample.kind for sample in samples).items()))


def _stride(samples: Sequence[Sample]) -> int:
    return max(1, len(samples) // AGREEMENT_SAMPLES)
