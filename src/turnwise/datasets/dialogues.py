"""Dialogues as one text, in which the speakers are named as they take turns: HH-RLHF and MuTual."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from turnwise.conversation import Label, Sequence
from turnwise.datasets.fields import as_object, field, parse_json, pick
from turnwise.datasets.layout import Head
from turnwise.datasets.protocol import SEE_SOURCE, BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import RecordLoader, SequenceBuilder
from turnwise.datasets.records import ParsedRecord
from turnwise.errors import DatasetError
from turnwise.linear_regex import SPACE, LinearRegex

_HUMAN, _ASSISTANT = _SPEAKERS = ("\n\nHuman:", "\n\nAssistant:")
_MAN_OR_WOMAN = LinearRegex(rf"(?:^|[{SPACE}])([mf]) :")


def is_hhrlhf(head: Head) -> bool:
    """Whether the chosen text of the first record begins with a speaker."""
    chosen = head.records[0]["chosen"]
    return isinstance(chosen, str) and chosen.startswith(_SPEAKERS)


def read_hhrlhf(record: Any, builder: SequenceBuilder) -> Sequence:
    """Return the sequence of one side of a pair: the chosen one, or that in the column ``text``."""
    line = as_object(record)
    side = builder.options.columns.get("text", "chosen")
    kept = pick(line, "rating", "task_description", "tags", "min_harmlessness_score_transcript")
    return builder.chat(
        split_speakers(field(line, side, str)), default=Label.UNLABELLED, metadata={"side": side, **kept}
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


class MuTual(RecordLoader):
    """Dialogues of a man and a woman, without the candidate replies; whoever speaks first prompts."""

    info = DatasetInfo(
        name="mutual",
        title="MuTual",
        source="Cui et al. 2020, MuTual: A Dataset for Multi-Turn Dialogue Reasoning, ACL 2020; English "
        "listening tests of Chinese high schools",
        url="https://github.com/Nealcly/MuTual",
        licence=SEE_SOURCE,
        label_meaning="benign: everyday dialogues between two people, none of them with a model",
        shape='a .txt file a dialogue, or a folder of them: {"article": "m : ... f : ...", "options", "answers", '
        '"id"}',
        directory=True,
    )

    def sniff(self, head: Head) -> bool:
        """Return whether files hold an article in which a man or a woman speaks first."""
        article = head.records[0]["article"] if {"article", "options", "answers"} <= head.fields else None
        return isinstance(article, str) and bool(_MAN_OR_WOMAN.match(article.lstrip()))

    def load(self, path: str, options: LoadOptions) -> Iterator[Sequence | BadRecord]:
        """Yield the dialogue of a file, or those of all files of a folder in the order of their numbers."""
        if not Path(path).is_dir():
            return super().load(path, options)
        files = sorted((file for file in Path(path).iterdir() if file.suffix == ".txt"), key=_natural)
        if not files:
            raise DatasetError(f"{path} holds no .txt file: name the folder of dialogues, such as data/mutual/dev")
        return self.load_records(_of_files(files), path, options)

    def build(self, record: Any, builder: SequenceBuilder) -> Sequence:
        """Return the sequence of a dialogue."""
        item = as_object(record)
        name = item.get("id")
        return builder.chat(
            _speak(field(item, "article", str)),
            name=f"{builder.source}-{name}" if name else None,
            default=Label.BENIGN,
            metadata=pick(item, "answers"),
        )


def _of_files(files: list[Path]) -> Iterator[ParsedRecord | BadRecord]:
    for number, file in enumerate(files, start=1):
        try:
            yield ParsedRecord(number, parse_json(file.read_bytes()))
        except (RecordError, OSError) as error:
            yield BadRecord(number, f"{file.name}: {error}")


def _natural(file: Path) -> list[tuple[bool, int, str]]:
    """A sort key by which 9 comes before 10, and digits before everything else."""
    runs = [(number, "".join(run)) for number, run in groupby(file.name, str.isdecimal)]
    return [(False, int(run), "") if number else (True, 0, run) for number, run in runs]


def _speak(article: str) -> list[dict[str, Any]]:
    before, *parts = _MAN_OR_WOMAN.split(article.strip())
    if not parts or before.strip():
        raise RecordError("the article does not begin with 'm :' or 'f :'")
    first = parts[0]
    said = zip(parts[::2], parts[1::2], strict=True)
    return [{"role": "user" if who == first else "assistant", "content": words.strip()} for who, words in said]
