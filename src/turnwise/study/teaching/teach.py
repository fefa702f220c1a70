"""Teaches the embedded observer a principle of a user's own, and writes what it learned beside the principle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turnwise._support.revision import code_version
from turnwise.conversation import Side
from turnwise.errors import PrincipleError, UsageError
from turnwise.observers.local.observer import LocalObserver
from turnwise.principles import HeadFile, Principle, load_principle, write_head
from turnwise.study.teaching.annotations import Annotation, Annotations
from turnwise.study.teaching.fit import Worth, check_enough, fit


@dataclass(frozen=True, slots=True)
class Taught:
    """What was taught of a principle.

    Args:
        principle: it, as it was read.
        file: where what was learned is.
        card: the page about it, in Markdown.
        about: how it was taught, as it stands in the file.
        worth: what it is worth.
    """

    principle: Principle
    file: HeadFile
    card: Path
    about: Mapping[str, Any]
    worth: Worth


def teach(folder: Path, annotations: Annotations, observer: LocalObserver, seed: int = 0) -> Taught:
    """Fit a head for a principle on the observer's states of annotated turns, and write it into its folder.

    Args:
        folder: of the principle.
        annotations: turns of one side.
        observer: on whose states it is fitted; its weights stay as they are.
        seed: of the division into folds.

    Raises:
        UsageError: a principle that the observer knows, too little to teach from, or annotations from which
            nothing can be learned.
        PrincipleError: the folder can't be read or written.
        ObserverError: the observer has no states to teach from.
    """
    principle = load_principle(folder)
    check_own(principle, observer)
    turns = list(annotations.turns)
    check_enough([one.falsity for one in turns], [one.conversation for one in turns])
    found = observer.states([one.talk for one in turns])
    known = [(one, states.mean(axis=0)) for one, states in zip(turns, found, strict=True) if states is not None]
    read = [one for one, _ in known]
    groups = [one.conversation for one in read]
    check_enough([one.falsity for one in read], groups)
    head, worth = fit(np.array([state for _, state in known], np.float64), _targets(read), groups, seed)
    if not worth.auroc.low > 0.5:
        area = worth.auroc
        raise UsageError(
            f"{len(read)} turns taught nothing: on turns left out the head ranks like a coin, AUROC "
            f"{area.value:.2f} [{area.low:.2f}, {area.high:.2f}]. Check that yes means everywhere that the turn "
            "breaks the principle, and annotate more"
        )
    about = {
        "principle": principle.name,
        "principle_revision": principle.revision,
        "side": str(annotations.side),
        "base": observer.parameters["weights_sha256"],
        "code_version": code_version(),
        "seed": seed,
        "data": _summary(annotations, read, len(turns) - len(read)),
        "measured": worth.to_dict(),
    }
    file = write_head(folder, about, head.to_record())
    card = file.path.with_suffix(".md")
    try:
        card.write_text(render_card(file, about), encoding="utf-8")
    except OSError as error:
        raise PrincipleError(f"can't write {card}: {error.strerror or error}") from error
    return Taught(principle, file, card, about, worth)


def check_own(principle: Principle, observer: LocalObserver) -> None:
    """Refuse to teach a principle under a name by which the observer scores another one."""
    if principle.name in (observer.info.principles or ()):
        raise UsageError(
            f"observer {observer.name} scores {principle.name!r} already: give yours another name in "
            "principle.toml"
        )


def _targets(turns: list[Annotation]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """F, or F, T and I where every turn has all of them."""
    if all(one.truth is not None for one in turns):
        return np.array([[one.falsity, one.truth, one.doubt] for one in turns], np.float64)
    return np.array([[one.falsity] for one in turns], np.float64)


def _summary(annotations: Annotations, read: list[Annotation], unread: int) -> dict[str, Any]:
    """Counts of what was taught from, without a text of it."""
    lengths = sorted(len(one.talk[-1][1].split()) for one in read)
    return {
        "sha256": annotations.sha256,
        "turns": len(read),
        "break_it": sum(one.falsity > 0.5 for one in read),
        "keep_it": sum(one.falsity < 0.5 for one in read),
        "undecided": sum(one.falsity == 0.5 for one in read),
        "with_t_and_i": sum(one.truth is not None for one in read),
        "conversations": len({one.conversation for one in read}),
        "with_context": sum(len(one.talk) > 1 for one in read),
        "words_median": lengths[len(lengths) // 2],
        "words_most": lengths[-1],
        "left_blank": annotations.blank,
        "language_not_read": unread,
    }


def render_card(file: HeadFile, about: Mapping[str, Any]) -> str:
    """The page about a head, in Markdown."""
    data, measured = about["data"], about["measured"]
    low, high = measured["interval"]
    correlation = measured["rank_correlation_of_i_with_error"]
    own = data["with_t_and_i"] == data["turns"]
    side = {Side.PROMPT: "prompts", Side.RESPONSE: "replies"}[file.side]
    lines = [
        f"# {about['principle']}, taught for {side}",
        "",
        f"Head `{file.sha256[:12]}` on the states of weights `{file.base[:12]}`, by turnwise "
        f"{about['code_version']}, for {about['principle']} {about['principle_revision']}. "
        "It fits no other weights.",
        "",
        "## Taught from",
        "",
        f"{data['turns']} turns of {data['conversations']} conversations (file `{data['sha256'][:12]}`): "
        f"{data['break_it']} break the principle, {data['keep_it']} don't, {data['undecided']} are undecided. "
        f"{data['with_context']} have something said before. Words: median {data['words_median']}, at most "
        f"{data['words_most']}. Left out: {data['left_blank']} without an answer, {data['language_not_read']} in "
        "a language that the observer does not read.",
        "",
        "## What it is worth",
        "",
        "By cross-validation: no turn is scored by a head that saw its conversation. On turns of another kind "
        "than these it may be worth less.",
        "",
        f"- AUROC {measured['auroc']:.3f}, 95 % interval by conversation [{low:.3f}, {high:.3f}]"
        f"{'; ' + measured['note'] if measured['note'] else ''}.",
        f"- F is {measured['mean_error']:.3f} away from the annotation in the mean.",
        f"- {measured['outlook']}",
        "",
        "| F | turns | mean F | break it |",
        "|---|---|---|---|",
        *(
            f"| {one['low']:.1f} to {one['high']:.1f} | {one['turns']} | {one['mean']:.2f} | "
            f"{one['flagged'] / one['turns']:.2f} |"
            for one in measured["calibration"]
        ),
        "",
        "## T and I",
        "",
        "T has an output of its own, taught from the annotators' T."
        if own
        else "T is 1 - F: the annotations say yes or no, so it tells nothing more.",
        "I is the distance of F from the annotation that is to be expected"
        + (", and half of the annotators' own I." if own else ", a function of F.")
        + (f" Its rank correlation with that distance: {correlation:.2f}." if correlation is not None else ""),
        "",
    ]
    return "\n".join(lines)
