"""Published data sets whose records are each one conversation, a row each; turnwise ships none of their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final

from turnwise.conversation import Label, Sequence
from turnwise.datasets.format_row import Format
from turnwise.datasets.layout import FileHead, Layout, data_stem, is_message
from turnwise.datasets.protocol import SEE_SOURCE, DatasetInfo, RecordError
from turnwise.datasets.record_loader import SequenceBuilder
from turnwise.datasets.records import as_object, checked_messages, field, kind, optional_text, parse_json, pick


def _kept(*names: str, **renamed: str) -> dict[str, str]:
    """Fields that are kept under their own names, and under others."""
    return {**{name: name for name in names}, **renamed}


def _begins_with(name: str, fits: Callable[[Any], bool]) -> Callable[[FileHead], bool]:
    """Whether a field of the first record is a list whose first item fits."""

    def told_by(head: FileHead) -> bool:
        items = head.records[0][name]
        return isinstance(items, list) and bool(items) and fits(items[0])

    return told_by


def _goal(record: Mapping[str, Any], _: SequenceBuilder) -> Mapping[str, Any]:
    return {"metadata": {"goal": field(record, "plain_query", str)}}


_OF_ACTOR = _kept("category", "query_id", "relationship", actor="actor_name")


def _is_cosafe(head: FileHead) -> bool:
    first = head.records[0] if head.records else None
    if head.layout is not Layout.LINES or not isinstance(first, list) or not first or not is_message(first[0]):
        return False
    names = (head.name, PurePath(head.path).parent.name.lower())
    return any(name.startswith("cosafe") for name in names) or data_stem(head.path) in _BEAVERTAILS


def _cosafe(record: Any, builder: SequenceBuilder) -> Sequence:
    """Ids name the category, so that all files of the data set can stand in one store."""
    if not isinstance(record, list):
        raise RecordError(f"the line is {kind(record)}, not a list of messages")
    return builder.chat(
        checked_messages(record),
        name=f"{builder.source}-{builder.stem}-{builder.number}",
        default=Label.ATTACK,
        metadata={"category": builder.stem},
    )


_BEAVERTAILS: Final = frozenset(
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
"""Categories of BeaverTails, after which the files of CoSafe are named."""


def _tensortrust(record: Any, builder: SequenceBuilder) -> Sequence:
    """A try of one player; those that share a defence are one group, not turns of one conversation."""
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
    code = line.get("access_code")
    types_code = isinstance(code, str) and prompt.strip() == code.strip()
    return builder.turns(
        [(prompt, optional_text(line, "llm_output"))],
        key=line.get("attack_id", line.get("sample_id")),
        default=Label.ATTACK,
        given=Label.UNLABELLED if types_code or line.get("is_self_attack") is True else None,
        metadata=metadata,
    )


_HUMAN, _ASSISTANT = _SPEAKERS = ("\n\nHuman:", "\n\nAssistant:")


def _is_hhrlhf(head: FileHead) -> bool:
    chosen = head.records[0]["chosen"]
    return isinstance(chosen, str) and chosen.startswith(_SPEAKERS)


def _hhrlhf(record: Any, builder: SequenceBuilder) -> Sequence:
    """Return the sequence of one side of a pair: the chosen one, or that in the column ``text``."""
    line = as_object(record)
    side = builder.options.columns.get("text", "chosen")
    kept = pick(line, "rating", "task_description", "tags", "min_harmlessness_score_transcript")
    return builder.chat(
        _split_speakers(field(line, side, str)), default=Label.UNLABELLED, metadata={"side": side, **kept}
    )


def _split_speakers(text: str) -> list[dict[str, Any]]:
    """Return a text in which ``Human:`` and ``Assistant:`` speak by turns as messages."""
    said = []
    for part in (text if text.startswith("\n\n") else f"\n\n{text.lstrip()}").split(_HUMAN):
        words, *replies = part.split(_ASSISTANT)
        said += [("user", words), *(("assistant", reply) for reply in replies)]
    (_, before), *spoken = said
    if not spoken or before.strip():
        raise RecordError("the text does not begin with 'Human:' or 'Assistant:'")
    return [{"role": role, "content": words.strip()} for role, words in spoken]


def _mhj(record: Any, builder: SequenceBuilder) -> Sequence:
    """Return the sequence of a row of MHJ; a question has several, which are one group."""
    row = as_object(record)
    facts = pick(row, "tactic", "question_id", "time_spent", "submission_message", origin="Source")
    metadata = {name: value for name, value in facts.items() if value != ""}
    if "question_id" in metadata:
        metadata["group"] = ":".join(str(metadata[name]) for name in ("origin", "question_id") if name in metadata)
    return builder.chat(_mhj_messages(row), default=Label.ATTACK, metadata=metadata)


def _mhj_messages(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "message_0" not in row:
        raise RecordError("column 'message_0' is missing: messages stand in message_0, message_1 ...")
    numbers = [name.removeprefix("message_") for name in row if name.startswith("message_")]
    columns = [f"message_{number}" for number in sorted(filter(str.isdecimal, numbers), key=int)]
    messages = [_mhj_message(column, row[column]) for column in columns if row[column]]
    if not messages:
        raise RecordError("the conversation is empty: every message column is")
    return messages


def _mhj_message(column: str, cell: object) -> dict[str, Any]:
    try:
        message = parse_json(cell) if isinstance(cell, str) else cell
    except RecordError as error:
        raise RecordError(f"column {column!r}: {error}") from None
    if not isinstance(message, dict):
        raise RecordError(f"column {column!r} is {kind(message)}, not an object with body and role")
    body = message.get("body")
    if not isinstance(body, str):
        raise RecordError(f"column {column!r}: body is {kind(body)}, not text")
    return {"role": message.get("role"), "content": body}


_TOPICS = ("full_topic", "subtopic", "subtopics")


def _task(record: Mapping[str, Any], builder: SequenceBuilder) -> Mapping[str, Any]:
    task = field(record, "task", str)
    return {"name": f"{builder.source}-{task}-{field(record, 'id', int)}", "metadata": {"task": task}}


def _moderation(record: Mapping[str, Any]) -> dict[str, list[list[str]]]:
    """What OpenAI's moderation flagged: for each message, the names of the categories."""
    verdicts = record.get("openai_moderation")
    return {"openai_moderation": list(map(_flagged, verdicts))} if isinstance(verdicts, list) else {}


def _flagged(verdict: object) -> list[str]:
    categories = verdict.get("categories") if isinstance(verdict, dict) else None
    return [name for name, hit in categories.items() if hit] if isinstance(categories, dict) else []


def _wildchat(record: Mapping[str, Any], _: SequenceBuilder) -> Mapping[str, Any]:
    """Chats of the same words share the hash, which is that of the content, so an id of a turn goes before it."""
    messages = record.get("conversation")
    first = messages[0] if isinstance(messages, list) and messages and isinstance(messages[0], dict) else {}
    key = first.get("turn_identifier") or record.get("conversation_hash") or record.get("conversation_id")
    return {"key": key, "metadata": _moderation(record)}


PUBLISHED: Final = (
    Format(
        info=DatasetInfo(
            name="attack600",
            title="SafeMTData Attack_600",
            source="Ren et al. 2024, ActorAttack, arXiv:2410.10700; written by a model",
            url="https://huggingface.co/datasets/SafeMTData/SafeMTData",
            licence="MIT",
            label_meaning="attack: every conversation leads to a harmful goal, though its first turn is "
            "harmless by design and many never ask the closing question",
            shape='JSON array of {"id", "query_id", "category", "actor_name", "relationship", "plain_query", '
            '"multi_turn_queries": [text]}',
        ),
        fields=("plain_query", "multi_turn_queries"),
        shape="prompts",
        texts="multi_turn_queries",
        label=Label.ATTACK,
        metadata=_OF_ACTOR,
        more=_goal,
    ),
    Format(
        info=DatasetInfo(
            name="safemt1k",
            title="SafeMTData SafeMTData_1K",
            source="Ren et al. 2024, ActorAttack, arXiv:2410.10700; written by models",
            url="https://huggingface.co/datasets/SafeMTData/SafeMTData",
            licence="MIT",
            label_meaning="attack: the user turns lead to a harmful goal; the replies turn to refusals where "
            "it shows",
            shape='JSON array or JSONL of {"id", "plain_query", "category", "actor_name", "conversations": '
            '[{"from", "value"} or {"role", "content"}]}',
        ),
        fields=("plain_query", "conversations"),
        without=("multi_turn_queries",),
        shape="sharegpt",
        texts="conversations",
        label=Label.ATTACK,
        metadata=_OF_ACTOR,
        more=_goal,
    ),
    Format(
        info=DatasetInfo(
            name="xguard",
            title="XGuard-Train",
            source="Rahman et al. 2025, X-Teaming, arXiv:2504.13203; written by models",
            url="https://huggingface.co/datasets/marslabucla/XGuard-Train",
            licence=SEE_SOURCE,
            label_meaning="attack: user turns of successful multi-turn attacks; harmful replies were replaced by "
            "refusals",
            shape='JSON array of {"conversations": [{"from": "human" or "gpt", "value"}]}',
            gated=True,
        ),
        fields=("conversations",),
        told_by=lambda head: "xguard" in head.name,  # its shape is that of any ShareGPT file
        shape="sharegpt",
        texts="conversations",
        label=Label.ATTACK,
        metadata=_kept("goal", "category"),
    ),
    Format(
        info=DatasetInfo(
            name="mhj",
            title="MHJ (Multi-Turn Human Jailbreaks)",
            source="Li et al. 2024, LLM Defenses Are Not Robust to Multi-Turn Human Jailbreaks Yet, "
            "arXiv:2408.15221; red teamers",
            url="https://huggingface.co/datasets/ScaleAI/mhj",
            licence="CC-BY-NC-4.0",
            label_meaning="attack: people broke a defended model with it; some completions are redacted",
            shape='CSV (harmbench_behaviors.csv): columns message_0 .. message_100, each empty or {"body", '
            '"role"}, with tactic, question_id, time_spent, submission_message, Source',
            gated=True,
        ),
        fields=("message_0", "tactic"),
        build=_mhj,
    ),
    Format(
        info=DatasetInfo(
            name="cosafe",
            title="CoSafe",
            source="Yu et al. 2024, CoSafe: Evaluating LLM Safety in Multi-Turn Dialogue Coreference, EMNLP 2024; "
            "written by a model from single prompts",
            url="https://github.com/ErxinYu/CoSafe-Dataset",
            licence="none stated in its repository: see the source",
            label_meaning="attack: the last user message asks for harm through what earlier ones named; some "
            "are mild",
            shape='a JSON list a line of {"role", "content"}, in a .json file a category',
        ),
        told_by=_is_cosafe,
        build=_cosafe,
    ),
    Format(
        info=DatasetInfo(
            name="tensortrust",
            title="Tensor Trust",
            source="Toyer et al. 2023, Tensor Trust: Interpretable Prompt Injection Attacks from an Online Game, "
            "arXiv:2311.01011; players",
            url="https://github.com/HumanCompatibleAI/tensor-trust-data",
            licence=SEE_SOURCE,
            label_meaning="attack: a player tried to get past a defence; unlabelled where players tried their own "
            "defence or typed the access code itself",
            shape='JSONL(.bz2) of {"attack_id", "defense_id", "opening_defense", "attacker_input", '
            '"closing_defense", "access_code", "llm_output", "output_is_access_granted"}, or of {"sample_id", '
            '"pre_prompt", "attack", "post_prompt", "access_code"}',
        ),
        fields=("access_code",),
        told_by=lambda head: not head.fields.isdisjoint(("attacker_input", "attack")),
        build=_tensortrust,
    ),
    Format(
        info=DatasetInfo(
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
        ),
        fields=("chosen", "rejected"),
        told_by=_is_hhrlhf,
        build=_hhrlhf,
    ),
    Format(
        info=DatasetInfo(
            name="wildchat",
            title="WildChat",
            source="Zhao et al. 2024, WildChat: 1M ChatGPT Interaction Logs in the Wild, arXiv:2405.01470; "
            "real users",
            url="https://huggingface.co/datasets/allenai/WildChat-1M",
            licence="ODC-BY",
            label_meaning="unlabelled: real traffic, mostly benign, with jailbreak tries in it; toxic and "
            "openai_moderation say what moderation flagged, not what the user was after",
            shape='Parquet: column conversation, a list of {"role", "content", ...}, with language, toxic, '
            "openai_moderation",
        ),
        fields=("conversation", "toxic", "language"),
        texts="conversation",
        only_texts=True,  # the rest says where users are and what they browse with
        metadata=_kept("conversation_hash", "model", "language", "toxic", "redacted"),
        more=_wildchat,
    ),
    Format(
        info=DatasetInfo(
            name="lmsys",
            title="LMSYS-Chat-1M",
            source="Zheng et al. 2023, LMSYS-Chat-1M, arXiv:2309.11998; real users",
            url="https://huggingface.co/datasets/lmsys/lmsys-chat-1m",
            licence="LMSYS-Chat-1M Dataset License Agreement (its own)",
            label_meaning="unlabelled: real traffic with jailbreak tries in it; openai_moderation says what "
            "moderation flagged, not what the user was after",
            shape='Parquet: column conversation, a list of {"role", "content"}, with conversation_id, model, '
            "language, openai_moderation",
            gated=True,
        ),
        fields=("conversation", "conversation_id", "model", "openai_moderation"),
        without=("toxic",),
        texts="conversation",
        only_texts=True,
        id="conversation_id",
        metadata=_kept("model", "language", "redacted"),
        more=lambda record, _: {"metadata": _moderation(record)},
    ),
    Format(
        info=DatasetInfo(
            name="everyday",
            title="Everyday Conversations (Llama 3.1, 2k)",
            source="Hugging Face TB, generated by Llama 3.1 70B from a list of topics",
            url="https://huggingface.co/datasets/HuggingFaceTB/everyday-conversations-llama3.1-2k",
            licence="Apache-2.0",
            label_meaning="benign: small talk written by a model; far easier than real benign traffic",
            shape='Parquet or JSONL of {"messages": [{"role", "content"}], "topic", "full_topic", ...}',
        ),
        fields=("messages",),
        told_by=lambda head: not head.fields.isdisjoint(_TOPICS),
        texts="messages",
        label=Label.BENIGN,
        metadata=_kept("topic", *_TOPICS),
    ),
    Format(
        info=DatasetInfo(
            name="mtbench",
            title="MT-Bench",
            source="Zheng et al. 2023, Judging LLM-as-a-Judge, arXiv:2306.05685; written by its authors",
            url="https://github.com/lm-sys/FastChat/tree/main/fastchat/llm_judge",
            licence="Apache-2.0",
            label_meaning="benign: questions that measure ability",
            shape='JSONL (question.jsonl) of {"question_id", "category", "turns": [text]}',
        ),
        fields=("question_id", "turns"),
        told_by=_begins_with("turns", lambda turn: isinstance(turn, str)),
        shape="prompts",
        texts="turns",
        id="question_id",
        label=Label.BENIGN,
        metadata=_kept("category"),
    ),
    Format(
        info=DatasetInfo(
            name="mtbench101",
            title="MT-Bench-101",
            source="Bai et al. 2024, MT-Bench-101, arXiv:2402.14762; written by a model, checked by people",
            url="https://github.com/mtbench101/mt-bench-101",
            licence="Apache-2.0",
            label_meaning="benign: tasks that measure ability; several correct or doubt the model on purpose",
            shape='JSONL of {"task", "id", "history": [{"user", "bot"}]}',
        ),
        fields=("task", "history"),
        told_by=_begins_with("history", lambda turn: isinstance(turn, dict) and "bot" in turn),
        shape="exchanges",
        texts="history",
        prompt="user",
        response="bot",
        label=Label.BENIGN,
        more=_task,
    ),
)
