"""A kit for people's labels: sheets to judge blind, and what came back as a set that studies take for truth."""

from turnwise.study.annotation.hand_out import hand_out
from turnwise.study.annotation.kit import PROVENANCE, Item, Kit, read_kit
from turnwise.study.annotation.take_in import TakenIn, take_in

__all__ = ["PROVENANCE", "Item", "Kit", "TakenIn", "hand_out", "read_kit", "take_in"]
