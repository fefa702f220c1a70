"""WildChat: what real users asked a public chatbot, and chats of the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, pick, roles_and_texts
from turnwise.datasets.protocol import DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class WildChat(RecordLoader):
    """Conversations with moderation flags. Where users are and what they browse with is left out."""

    info = DatasetInfo(
        name="wildchat",
        title="WildChat",
        source="Zhao et al. 2024, WildChat: 1M ChatGPT Interaction Logs in the Wild, arXiv:2405.01470; real users",
        url="https://huggingface.co/datasets/allenai/WildChat-1M",
        licence="ODC-BY",
        label_meaning="unlabelled: real traffic, mostly benign, with jailbreak tries in it; toxic and "
        "openai_moderation say what moderation flagged, not what the user was after",
        shape='Parquet: column conversation, a list of {"role", "content", ...}, with language, toxic, '
        "openai_moderation",
    )

    def sniff(self, head: Head) -> bool:
        """Return whether there is a conversation with a flag ``toxic`` beside it."""
        return {"conversation", "toxic", "language"} <= head.fields

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a row.

        ``conversation_hash`` is that of the content, so chats of the same words share it; the identifier of the
        first turn is used as key before it.
        """
        row = as_object(record)
        messages = field(row, "conversation", list)
        identifier = messages[0].get("turn_identifier") if messages and isinstance(messages[0], dict) else None
        return builder.chat(
            roles_and_texts(messages),
            key=identifier or row.get("conversation_hash") or row.get("conversation_id"),
            default=Label.UNLABELLED,
            metadata={**pick(row, "conversation_hash", "model", "language", "toxic", "redacted"), **flagged(row)},
        )


def flagged(row: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    """What OpenAI's moderation flagged: for each message, the names of the categories.

    >>> flagged({"openai_moderation": [{"categories": {"hate": True, "violence": False}}, None]})
    {'openai_moderation': [['hate'], []]}
    """
    verdicts = row.get("openai_moderation")
    if not isinstance(verdicts, list):
        return {}
    return {"openai_moderation": [_categories(verdict) for verdict in verdicts]}


def _categories(verdict: object) -> list[str]:
    categories = verdict.get("categories") if isinstance(verdict, dict) else None
    return [name for name, hit in categories.items() if hit] if isinstance(categories, dict) else []
