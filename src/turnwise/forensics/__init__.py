"""What happened in a conversation under guard: what was blocked when and by what, and where drift began."""

from turnwise.forensics.analysis import analyze_conversation_forensics, in_words
from turnwise.forensics.evidence import evidence, piece_in_words, stands_in_words
from turnwise.forensics.page import forensics_page
from turnwise.forensics.replay import check_again, checks_of, recorded, replay, replay_pipeline

__all__ = [
    "analyze_conversation_forensics",
    "check_again",
    "checks_of",
    "evidence",
    "forensics_page",
    "in_words",
    "piece_in_words",
    "recorded",
    "replay",
    "replay_pipeline",
    "stands_in_words",
]
