"""A kit for people's labels: sheets to judge blind, and what came back as a set that studies take for truth."""

from turnwise.study.annotation.agreement import Agreement, agreement
from turnwise.study.annotation.hand_out import hand_out
from turnwise.study.annotation.kit import PROVENANCE, Kit, SheetItem, read_kit
from turnwise.study.annotation.queue import (
    BLIND,
    SETTLED,
    Disagreement,
    LabelQueue,
    LiveRates,
    Order,
    blind_answers,
    consensus,
)
from turnwise.study.annotation.take_in import TakenIn, take_in

__all__ = [
    "BLIND",
    "PROVENANCE",
    "SETTLED",
    "Agreement",
    "Disagreement",
    "Kit",
    "LabelQueue",
    "LiveRates",
    "Order",
    "SheetItem",
    "TakenIn",
    "agreement",
    "blind_answers",
    "consensus",
    "hand_out",
    "read_kit",
    "take_in",
]
