"""All pairs that training learns from, twins and drills, split into those to fit and those to calibrate with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnwise.observers.local.training import drills, twins
from turnwise.observers.local.training.samples import Sample
from turnwise.observers.local.training.twins import TwinSamples, variants


@dataclass(slots=True)
class PairMaterial:
    """What the corpora of pairs give.

    Args:
        pairs: pairs to fit, by corpus, each in several forms.
        held_out: halves of the pairs that calibrate.
        harmless: conversations without a pair.
        hashes: SHA-256 of each file read.
    """

    pairs: dict[str, list[list[TwinSamples]]] = field(default_factory=dict)
    held_out: list[Sample] = field(default_factory=list)
    harmless: list[Sample] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)


def read_pair_material(
    twins_folder: Path | None, drills_folder: Path | None, chats: Sequence[Sequence[str]], seed: int
) -> PairMaterial:
    """Read twins and drills.

    Args:
        twins_folder: folder of the twins corpus; None for none.
        drills_folder: folder of the drills; None for none.
        chats: harmless chats to put before a pair, user turns only.
        seed: seed of the random choices.

    Raises:
        DatasetError: a folder can't be read.
    """
    material = PairMaterial()
    if twins_folder is not None:
        pairs, hashes = twins.read_pairs(twins_folder)
        kept = [(twins.samples_of(pair), twins.is_held_out(pair)) for pair in pairs]
        _add(material, "twins", kept, chats, seed)
        material.hashes |= hashes
    if drills_folder is not None:
        found = drills.read_drills(drills_folder)
        named = zip(found.pairs, found.names, strict=True)
        kept = [(pair, drills.is_held_out(name)) for pair, name in named]
        _add(material, "drills", kept, chats, seed + 10_000)
        material.harmless.extend(found.harmless)
        material.hashes |= found.hashes
    return material


def _add(
    material: PairMaterial,
    corpus: str,
    pairs: Sequence[tuple[TwinSamples, bool]],
    chats: Sequence[Sequence[str]],
    seed: int,
) -> None:
    fitted = [pair for pair, held_out in pairs if not held_out]
    material.pairs[corpus] = [variants(pair, chats, seed + number) for number, pair in enumerate(fitted)]
    material.held_out.extend(half for pair, held_out in pairs if held_out for half in (pair.attack, pair.benign))
