"""What the explorer shows, without a web page: read from a store and what is named beside it."""

from turnwise.explorer.data.answers import Answers, Filter, Found
from turnwise.explorer.data.conversations import lay_beside, partners, read_chat
from turnwise.explorer.data.flags import rule_of
from turnwise.explorer.data.labelling import Judging, given_by, judging, next_conversation, score_again
from turnwise.explorer.data.record import SERVICE_KEY, Named, Record
from turnwise.explorer.data.studies import FinishedStudy, find_studies
from turnwise.explorer.data.words import WordIndex, excerpt, found_words, search_words

__all__ = [
    "SERVICE_KEY",
    "Answers",
    "Filter",
    "FinishedStudy",
    "Found",
    "Judging",
    "Named",
    "Record",
    "WordIndex",
    "excerpt",
    "find_studies",
    "found_words",
    "given_by",
    "judging",
    "lay_beside",
    "next_conversation",
    "partners",
    "read_chat",
    "rule_of",
    "score_again",
    "search_words",
]
