"""What was tried on the figures that fell short of their targets, kept or not: a section of the model card."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt.

    Args:
        aims: the figures that it was for.
        what: what was changed.
        where: what it was measured on.
        before: the figure without it.
        after: the figure with it.
        kept: whether it is part of the shipped weights.
        remark: what spoke against it, or what it costs; may be empty.
    """

    aims: tuple[str, ...]
    what: str
    where: str
    before: str
    after: str
    kept: bool
    remark: str = ""


_CHATS, _PAIRS = "left-out chats", "left-out pairs"
_RECALL = ("Attack_600", "scenarios")
_TWINS = ("twins flagged", "twins ranked", "error of F")

ATTEMPTS: tuple[Attempt, ...] = (
    Attempt(
        _RECALL,
        "attacks are asked to exceed the worst tenth of the harmless conversations of their batch, weight 0.5",
        f"{_CHATS}; in brackets attacks without their last question",
        ".888 (.690)",
        ".919 (.757)",
        True,
        "with weight 1, see below",
    ),
    Attempt(
        _RECALL,
        "the same with weight 1; gradual attacks weigh 3, their shortened copies .7",
        _CHATS,
        ".919 (.757)",
        ".941 (.776)",
        False,
        "single harmful requests found: .55 to .41",
    ),
    Attempt(
        _RECALL,
        "the same with gradual attacks at 2.5, and half of the red-team chats, chosen by a first network",
        _CHATS,
        ".919 (.757)",
        ".939 (.788)",
        True,
        "red-team chats of people that it never saw: .032 to .068; harmless halves of pairs flagged: no more",
    ),
    Attempt(
        _RECALL,
        "five networks of width 96 for three of 128, phrases of 32 instead of 64 dimensions",
        _CHATS,
        ".925 (.765)",
        ".904 (.733)",
        False,
    ),
    Attempt(
        _RECALL,
        "four epochs instead of two",
        f"{_CHATS}, mean over thresholds of 0.5 to 3 %",
        ".864 (.671)",
        ".854 (.651)",
        False,
    ),
    Attempt(
        ("scenarios",),
        "410 pairs and 280 harmless talks written for training",
        "development sets",
        "2 of 10",
        "3 of 10",
        True,
        "an earlier round",
    ),
    Attempt(
        ("scenarios", "Attack_600"),
        "gradual attacks weigh twice, with copies that stop early, and fewer harmless openings as counterexamples",
        "development sets",
        "3 of 10; .732",
        "2 of 10; .797",
        True,
        "an earlier round",
    ),
    Attempt(
        _TWINS[:2],
        "training without pairs, on pairs alone, on both",
        "twins, dev split: attack above its twin",
        "12 of 37",
        "24 and 27 of 37",
        True,
        "pairs alone find no gradual attacks",
    ),
    Attempt(
        _TWINS[:2],
        "the table nearly frozen, so that rare words keep what the sentence encoder knew",
        f"{_PAIRS} and twins, dev split: attack above its twin",
        ".561",
        ".695",
        False,
        "single harmful requests found: .55 to .18; gradual attacks .72 to .68",
    ),
    Attempt(
        _TWINS[:2],
        "the whole sentence encoder fine-tuned on the same pairs (22 million parameters, some 70 times too slow), "
        "as a teacher",
        f"{_PAIRS} and twins, dev split: attack above its twin; flagged at 5 % of benign halves",
        ".561; .061",
        ".756; .134",
        False,
        "so a far larger reader of whole sentences misses the targets too, and has little to teach",
    ),
    Attempt(
        _TWINS[:2],
        "turns that both halves share weigh .5 instead of .15",
        f"{_PAIRS} of the twins: attack above its twin",
        ".524",
        ".537",
        False,
    ),
    Attempt(
        _TWINS,
        "280 more pairs, and pairs with weight .6 instead of .3",
        f"{_PAIRS} of the twins: attack above its twin; error of F of the worst principle",
        ".476; .236",
        ".549; .227",
        False,
        "recall of gradual attacks .939 (.788) to .928 (.757); the new pairs are kept, with the old weight",
    ),
    Attempt(
        ("twins ranked", "error of F", "calibration error"),
        "the number of the turn in the calibration: pairs turn late",
        f"{_PAIRS} of the twins, one source: attack above its twin; error of F; calibration error",
        ".634; .234; .078",
        ".707; .223; .060",
        False,
        "jailbreaks in a first turn found: .93 to none",
    ),
    Attempt(
        ("twins ranked", "calibration error"),
        "distance from the training data in the calibration",
        f"{_PAIRS} of the twins: attack above its twin; calibration error",
        ".476; .050",
        ".585; .074",
        False,
        "takes unfamiliar words for harmless, and I could no longer rest on distance",
    ),
    Attempt(
        ("calibration error", "error of F"),
        "held-out pairs weigh twice as much as all else together in calibration, instead of a quarter",
        f"{_PAIRS} of the twins, worst principle: calibration error; error of F",
        ".115; .220",
        ".067; .234",
        True,
        "the error of F rises: always saying 0 has .208 on the train split",
    ),
    Attempt(
        ("calibration error",),
        "a slope of its own beyond 3 logits",
        f"{_PAIRS} of the twins, worst principle",
        ".067",
        ".050",
        True,
    ),
    Attempt(
        ("calibration error",),
        "calibration after the length correction instead of before it",
        f"{_PAIRS} of the twins, worst principle",
        ".074",
        ".061",
        True,
    ),
    Attempt(
        ("calibration error", "error of F"),
        "held-out pairs weigh three times as much, so that pairs and all else are equally far off",
        f"{_PAIRS} of the twins, worst principle: calibration error; error of F",
        ".058; .235",
        ".052; .236",
        True,
    ),
    Attempt(
        ("AUROC of I",),
        "the root of the members' disagreement, so that set weights of distance and fragments do not drown it",
        f"{_PAIRS} of the twins",
        ".634",
        ".742",
        True,
    ),
    Attempt(
        ("AUROC of I",),
        "a constant inside that root, against rounding",
        f"{_PAIRS} of the twins; twins, test split",
        ".756",
        ".746; .699",
        False,
        "rounding stays as it is",
    ),
    Attempt(
        ("AUROC of I",),
        "the number of the turn as a part of I",
        f"{_PAIRS} of the twins; all held-out turns",
        ".743; .93",
        ".781; .89",
        False,
        "foretells where pairs turn, and little else",
    ),
    Attempt(
        ("AUROC of I",),
        "disagreement of logits beside that of probabilities",
        f"{_PAIRS} of the twins",
        ".849",
        ".866",
        False,
        "with the number of the turn in both; one more part for little",
    ),
    Attempt(
        ("chains",),
        "longer harmless chains with more weight",
        f"{_CHATS}: chains flagged; no length correction",
        ".53",
        ".63",
        False,
        "an earlier round",
    ),
    Attempt(
        ("chains",),
        "a late turn counts in part only if the turn before it was suspicious as well",
        f"{_CHATS}, at .044 to .050 of chains flagged: gradual attacks behind 30 turns; single requests behind 10",
        ".60; .61",
        ".73; .46",
        False,
        "misses what happens in a single turn",
    ),
    Attempt(
        ("chains",),
        "length correction with weight 1 instead of .75, from the fifth turn",
        f"{_CHATS}: chains flagged; gradual attacks behind 10 and 30 turns found",
        ".056; .92, .78",
        ".037; .88, .61",
        True,
        "the price of long conversations without false alarms",
    ),
    Attempt(
        ("chains", "Attack_600"),
        "the same from the fourth turn",
        f"{_CHATS}: the same; development sets: chains, Attack_600",
        ".037; .88, .61",
        ".019; .83, .48; 6 of 100, .840",
        False,
        "misses the target for chains all the same, and costs attacks of five turns",
    ),
    Attempt(
        ("latency",),
        "neighbouring tokens as a view, fewer temporary arrays, scalars computed outside numpy",
        "a quiet core, after turn 1,000",
        ".210 ms",
        ".176 ms",
        True,
    ),
    Attempt(
        ("latency",),
        "phrases of 32 instead of 64 dimensions",
        "a quiet core, reading a turn",
        ".075 ms",
        ".063 ms",
        False,
        "measured with five networks, see above: lower recall",
    ),
    Attempt(
        ("latency",),
        "a loop over the turns of a batch instead of one reduction over all of them",
        "turns/s of processor time in batches",
        "6,800",
        "9,500",
        True,
    ),
)
