"""CoSafe: attacks that hide the harm behind a reference to earlier turns."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import checked_messages, kind
from turnwise.datasets.protocol import DatasetInfo, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head, Layout, data_stem, is_message

CATEGORIES = frozenset(
    {
        "animal_abuse",
        "child_abuse",
        "controversial_topics,politics",
        "discrimination,stereotype,injustice",
        "drug_abuse,weapons,banned_substance",
        "financial_crime,property_crime,theft",
        "hate_speech,offensive_language",
        "misinformation_regarding_ethics,laws_and_safety",
        "non_violent_unethical_behavior",
        "privacy_violation",
        "self_harm",
        "sexually_explicit,adult_content",
        "terrorism,organized_crime",
        "violence,aiding_and_abetting,incitement",
    }
)
"""Names of its files, without the ending: the 14 categories of BeaverTails."""


class CoSafe(RecordLoader):
    """1,400 conversations of five messages, 100 for each category, one file for each category."""

    info = DatasetInfo(
        name="cosafe",
        title="CoSafe",
        source="Yu et al. 2024, CoSafe: Evaluating LLM Safety in Multi-Turn Dialogue Coreference, EMNLP 2024; "
        "written by a model from single prompts",
        url="https://github.com/ErxinYu/CoSafe-Dataset",
        licence="none stated in its repository: see the source",
        label_meaning="attack: the last user message asks for harm through what earlier ones named; some are mild",
        shape='a JSON list a line of {"role", "content"}, in a .json file a category',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether lines are lists of messages, and file or folder are named as in the data set."""
        first = head.records[0] if head.records else None
        if head.layout is not Layout.LINES or not isinstance(first, list) or not first or not is_message(first[0]):
            return False
        names = (head.name, PurePath(head.path).parent.name.lower())
        return any(name.startswith("cosafe") for name in names) or data_stem(head.path) in CATEGORIES

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a line; ids name the category, so that its files can stand in one store."""
        if not isinstance(record, list):
            raise RecordError(f"the line is {kind(record)}, not a list of messages")
        return builder.chat(
            checked_messages(record),
            name=f"{builder.source}-{builder.stem}-{builder.number}",
            default=Label.ATTACK,
            metadata={"category": builder.stem},
        )
