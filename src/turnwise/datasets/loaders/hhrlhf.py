"""HH-RLHF: pairs of conversations of crowd workers with a model, of which one reply was preferred."""

from __future__ import annotations

from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, pick
from turnwise.datasets.protocol import DatasetInfo, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head

_HUMAN, _ASSISTANT = _SPEAKERS = ("\n\nHuman:", "\n\nAssistant:")


class HHRLHF(RecordLoader):
    """The chosen conversation of each pair; the column ``text`` names another, such as ``rejected``."""

    info = DatasetInfo(
        name="hhrlhf",
        title="HH-RLHF",
        source="Bai et al. 2022, Training a Helpful and Harmless Assistant, arXiv:2204.05862; crowd workers",
        url="https://github.com/anthropics/hh-rlhf",
        licence="MIT",
        label_meaning="unlabelled: the preference is about the reply. The helpful subsets are benign "
        "(--label benign); in harmless-base workers tried to elicit harm, and about two in three are attacks "
        "(--label attack)",
        shape='JSONL(.gz) of {"chosen", "rejected"}, each a text "\\n\\nHuman: ...\\n\\nAssistant: ..."; '
        "red_team_attempts with --columns text=transcript",
        columns=("text",),
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records are a chosen and a rejected conversation as text."""
        first = head.records[0] if {"chosen", "rejected"} <= head.fields else {}
        return isinstance(first.get("chosen"), str) and first["chosen"].startswith(_SPEAKERS)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one side of the pair."""
        line = as_object(record)
        column = builder.options.columns.get("text", "chosen")
        return builder.chat(
            split_speakers(field(line, column, str)),
            default=Label.UNLABELLED,
            metadata={
                "side": column,
                **pick(line, "rating", "task_description", "tags", "min_harmlessness_score_transcript"),
            },
        )


def split_speakers(text: str) -> list[dict[str, Any]]:
    r"""Return a text in which ``Human:`` and ``Assistant:`` speak by turns as messages.

    >>> [message["content"] for message in split_speakers("\n\nHuman: Hi\n\nAssistant: Hello")]
    ['Hi', 'Hello']
    """
    said = []
    for part in (text if text.startswith("\n\n") else f"\n\n{text.lstrip()}").split(_HUMAN):
        words, *replies = part.split(_ASSISTANT)
        said += [("user", words), *(("assistant", reply) for reply in replies)]
    (_, before), *spoken = said
    if not spoken or before.strip():
        raise RecordError("the text does not begin with 'Human:' or 'Assistant:'")
    return [{"role": role, "content": words.strip()} for role, words in spoken]
