"""Tensor Trust: prompt injections by players of an online game, one in each record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, optional_text, pick
from turnwise.datasets.protocol import SEE_SOURCE, DatasetInfo
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import Head


class TensorTrust(RecordLoader):
    """The raw dump of attacks and both robustness benchmarks, each record a conversation of one turn.

    Records that share a defence are one group: the tries of different people, not turns of one conversation.
    """

    info = DatasetInfo(
        name="tensortrust",
        title="Tensor Trust",
        source="Toyer et al. 2023, Tensor Trust: Interpretable Prompt Injection Attacks from an Online Game, "
        "arXiv:2311.01011; players",
        url="https://github.com/HumanCompatibleAI/tensor-trust-data",
        licence=SEE_SOURCE,
        label_meaning="attack: a player tried to get past a defence; unlabelled where players tried their own "
        "defence or typed the access code itself",
        shape='JSONL(.bz2) of {"attack_id", "defense_id", "opening_defense", "attacker_input", "closing_defense", '
        '"access_code", "llm_output", "output_is_access_granted"}, or of {"sample_id", "pre_prompt", "attack", '
        '"post_prompt", "access_code"}',
    )

    def sniff(self, head: Head) -> bool:
        """Return whether records are attacks on an access code."""
        return "access_code" in head.fields and bool({"attacker_input", "attack"} & head.fields)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of one attack."""
        line = as_object(record)
        dump = "attack" not in line
        prompt = field(line, "attacker_input" if dump else "attack", str)
        metadata = pick(
            line,
            "defense_id",
            "access_code",
            "timestamp",
            pre_prompt="opening_defense" if dump else "pre_prompt",
            post_prompt="closing_defense" if dump else "post_prompt",
            access_granted="output_is_access_granted",
            self_attack="is_self_attack",
        )
        if "defense_id" in metadata:
            metadata["group"] = f"defense-{metadata['defense_id']}"
        return builder.turns(
            [(prompt, optional_text(line, "llm_output"))],
            key=line.get("attack_id", line.get("sample_id")),
            default=Label.ATTACK,
            given=_doubt(line, prompt),
            metadata=metadata,
        )


def _doubt(line: Mapping[str, Any], prompt: str) -> Label | None:
    code = line.get("access_code")
    own = line.get("is_self_attack") is True
    return Label.UNLABELLED if own or (isinstance(code, str) and prompt.strip() == code.strip()) else None
