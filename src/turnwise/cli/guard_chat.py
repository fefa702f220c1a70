"""``turnwise guard chat``: a conversation in the terminal, and what the guard makes of each message."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from turnwise.cli import options
from turnwise.cli.guard import ConfigFile, Preset, open_pipeline, result_lines, wrapped
from turnwise.cli.output import note, print_json, say
from turnwise.errors import TurnwiseError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from turnwise.conversation import Conversation
    from turnwise.guard import GuardrailPipeline, PipelineResult

HELP = """Type a message, and see what the guard makes of it. Commands:
  /response TEXT   what the other side answers; /r for short
  /forensics       the analysis of the conversation so far
  /save FILE       the conversation with its checks, as JSON
  /help            this
  /quit            end; so do Ctrl-D and Ctrl-C"""

_WIDTH = 20
"""Characters of a bar."""


def chat(
    preset: Preset = None,
    config: ConfigFile = None,
    observer: options.ObserverName = None,
    json: options.Json = False,
) -> None:
    """Type messages and see scores, verdict and stance after each; nothing goes to a model.

    With --json, print a line of JSON for every check.
    """
    from turnwise.conversation import Conversation

    conversation = Conversation("you", "other")
    with open_pipeline(preset, config, observer) as pipeline:
        if not json:
            note(f"pipeline {pipeline.config.name}: {', '.join(step.name for step in pipeline.steps)}\n{HELP}")
        loop = _Loop(pipeline, conversation, json)
        for line in _lines():
            if not loop.take(line):
                break


class _Loop:
    """Does what each line says."""

    def __init__(self, pipeline: GuardrailPipeline, conversation: Conversation, json: bool) -> None:
        self._pipeline = pipeline
        self._conversation = conversation
        self._json = json
        self._commands: Mapping[str, Callable[[str], None]] = {
            "/response": self._response,
            "/r": self._response,
            "/forensics": self._forensics,
            "/save": self._save,
            "/help": self._help,
        }

    def take(self, line: str) -> bool:
        """Do what a line says; return whether to go on."""

        if not line.strip():
            return True
        name, _, rest = line.strip().partition(" ")
        if name == "/quit":
            return False
        try:
            if not name.startswith("/"):
                self._tell(self._pipeline.check_input(line, conversation=self._conversation))
            elif name in self._commands:
                self._commands[name](rest.strip())
            else:
                raise UnknownNameError("command", name, [*self._commands, "/quit"])
        except TurnwiseError as error:
            note(f"error: {error}")
        return True

    def _response(self, text: str) -> None:
        self._tell(self._pipeline.check_output(text, conversation=self._conversation))

    def _forensics(self, _: str) -> None:
        from turnwise.cli.guard_forensics import print_analysis
        from turnwise.guard.forensics import analyze_conversation_forensics

        analysis = analyze_conversation_forensics(self._conversation)
        if self._json:
            print_json(analysis)
        else:
            print_analysis(analysis)

    def _save(self, name: str) -> None:
        from turnwise.cli.files import writing

        if not name:
            raise UsageError("/save needs the name of a file")
        with writing(name, taken="give another name", home=True) as file:
            json_.dump(self._conversation.to_dict(), file, indent=1)
        note(f"{name} written; turnwise guard forensics {name} reads it")

    def _help(self, _: str) -> None:

        note(HELP)

    def _tell(self, result: PipelineResult) -> None:
        if self._json:
            print_json(result.to_dict(), indent=None)
            return
        lines = result_lines(result)
        for name, detail in result.details.items():
            lines += score_lines(name, detail.data)
            if detail.status == "skipped":
                lines.append(f"  {name:<19} skipped: {detail.reason}")
        if result.stance is not None:
            stance = f"{result.stance.mode}: {result.stance.rationale}"
            lines += wrapped(f"  {'stance':<19} {stance}", hanging=" " * 22)
        say(*lines)


def score_lines(name: str, data: Any) -> list[str]:
    """The bars of what a guardrail scored: F by principle, and the detector's score; none where it did not.

    >>> for line in score_lines("drift", {"scores": {"reciprocity": {"T": 0.5, "I": 0.25, "F": 0.5}}}):
    ...     print(line)
      reciprocity         F ██████████·········· 0.50   T 0.50  I 0.25
    """
    if not isinstance(data, Mapping):
        return []
    scores = data.get("scores")
    lines = []
    for principle, score in scores.items() if isinstance(scores, Mapping) else ():
        bar = _bar(score["F"])
        lines.append(f"  {principle:<19} F {bar} {score['F']:.2f}   T {score['T']:.2f}  I {score['I']:.2f}")
    score, limit = data.get("score"), data.get("threshold")
    if isinstance(score, float) and isinstance(limit, float) and "detector" in data:
        share = score / limit if limit > 0 else 1.0
        lines.append(f"  {name:<19}   {_bar(share)} {score:.2f} of {limit:.2f}   {data['detector']}")
    return lines


def _bar(share: float) -> str:
    full = round(_WIDTH * min(1.0, max(0.0, share)))
    return "█" * full + "·" * (_WIDTH - full)


def _lines() -> Iterator[str]:
    """Yield lines until there are no more: typed, with history and editing, or from a pipe."""

    typed = sys.stdin.isatty()
    if typed:
        try:
            import readline  # noqa: F401 - importing it gives `input` its history and editing
        except ImportError:
            note("this Python has no readline: lines can't be edited")
    while True:
        try:
            line = input("> ") if typed else sys.stdin.readline()
        except (EOFError, KeyboardInterrupt):
            note("")
            return
        except UnicodeDecodeError as error:
            raise UsageError(f"standard input must be UTF-8 text: {error}") from error
        if not line and not typed:
            return
        yield line.removesuffix("\n")
