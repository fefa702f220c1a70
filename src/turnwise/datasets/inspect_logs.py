"""Logs of inspect_ai: each sample of an evaluation as a conversation. Needs ``turnwise[inspect]``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from turnwise.conversation import Label, Sequence
from turnwise.datasets.files import MAX_LINE
from turnwise.datasets.layout import FileHead, Layout
from turnwise.datasets.protocol import BadRecord, DatasetInfo, LoadOptions, RecordError
from turnwise.datasets.record_loader import SequenceBuilder, UniqueIds
from turnwise.errors import ConversationError, DatasetError

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ChatMessage

ENDING = ".eval"
_FIELDS = {"version", "status", "eval"}
_ID = 8
"""Characters of an evaluation's id that ids of its conversations begin with."""


class InspectLogs:
    """Reads the logs that ``inspect eval`` writes, one file or a folder of them."""

    info = DatasetInfo(
        name="inspect",
        title="logs of inspect_ai",
        source="evaluations run with inspect_ai of the UK AI Security Institute",
        url="https://inspect.aisi.org.uk/eval-logs.html",
        licence="that of the evaluation's data set and of the models' replies",
        label_meaning="that of the sample's metadata, under label; others have none: say it with --label",
        shape=".eval files, .json logs, or a folder of .eval files; a conversation for each sample and epoch",
        directory=True,
    )

    def sniff(self, head: FileHead) -> bool:
        if head.layout is Layout.FOLDER:
            return any(Path(head.path).glob(f"*{ENDING}"))
        if head.layout is Layout.ARCHIVE:
            return head.name.endswith(ENDING)
        return (
            head.fields >= _FIELDS
            and isinstance(head.records[0]["eval"], dict)
            and "task" in head.records[0]["eval"]
        )

    def load(self, path: str, options: LoadOptions) -> Iterator[Sequence | BadRecord]:
        """Yield the conversation of each sample; a `BadRecord` counts samples, over all logs of a folder."""
        place = Path(path)
        files = sorted(place.glob(f"*{ENDING}")) if place.is_dir() else [place]
        if not files:
            raise DatasetError(f"{path} has no file that ends with {ENDING}: name a folder of logs, or a log")
        ids, number = UniqueIds(), 0
        for file in files:
            for log, sample in _samples(file):
                number += 1
                builder = SequenceBuilder(options.source or log.eval.task, number, str(file), options)
                try:
                    yield ids.check(number, _sequence(log, sample, builder))
                except (RecordError, ConversationError) as error:
                    yield BadRecord(number, str(error))


def _samples(file: Path) -> Iterator[tuple[EvalLog, EvalSample]]:
    """Yield the samples of a log with its head, one in memory at a time."""
    try:
        logs: Any = import_module("inspect_ai.log")
    except ImportError:
        raise DatasetError("reading logs of inspect_ai needs it: pip install 'turnwise[inspect]'") from None
    if not file.is_file():
        raise DatasetError(f"there is no file {file}: check the path")
    try:
        _check_sizes(file)
        if file.suffix != ENDING:
            log = logs.read_eval_log(str(file), resolve_attachments=True, format="json")
            yield from ((log, sample) for sample in log.samples or ())
            return
        head = logs.read_eval_log(str(file), header_only=True, format="eval")
        samples = logs.read_eval_log_samples(
            str(file), all_samples_required=False, resolve_attachments=True, format="eval"
        )
        yield from ((head, sample) for sample in samples)
    except (DatasetError, GeneratorExit):
        raise
    except Exception as error:  # a damaged log raises whatever its part does
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DatasetError(f"{file} can't be read as a log of inspect_ai: {text[:200]}") from error


def _check_sizes(file: Path) -> None:
    """Raise DatasetError where a part of an archive unpacks to more than a line of JSON may have."""
    if file.suffix != ENDING:
        return
    try:
        with ZipFile(file) as archive:
            large = [part.filename for part in archive.infolist() if part.file_size > MAX_LINE]
    except BadZipFile as error:
        raise DatasetError(f"{file} is damaged: {error}") from error
    if large:
        raise DatasetError(f"{file}: {large[0]} is too large: at most {MAX_LINE >> 20} MiB are read")


def _sequence(log: EvalLog, sample: EvalSample, builder: SequenceBuilder) -> Sequence:
    spec = log.eval
    metadata = {
        **sample.metadata,
        "task": spec.task,
        "model": spec.model,
        "epoch": sample.epoch,
        "target": sample.target,
        "scores": {name: score.value for name, score in (sample.scores or {}).items()},
        "error": sample.error.message if sample.error else None,
    }
    return builder.chat(
        openai_messages(sample.messages or sample.input),
        default=Label.UNLABELLED,
        given=sample.metadata.get("label"),
        name=f"{spec.task}-{(spec.eval_id or spec.run_id)[:_ID]}-{sample.id}-{sample.epoch}",
        metadata={name: value for name, value in _plain(metadata).items() if value is not None},
    )


def _plain(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as JSON values: what JSON lacks becomes text; NaN and Infinity become null."""
    plain: dict[str, Any] = json.loads(json.dumps(metadata, default=str), parse_constant=lambda _: None)
    return plain


def openai_messages(messages: str | Iterable[ChatMessage]) -> list[dict[str, Any]]:
    """Convert messages of inspect_ai, or one text of the user; images, audio and reasoning are left out."""
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [_message(message) for message in messages]


def _message(message: ChatMessage) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "assistant" and message.tool_calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool" and message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    return made
