"""A conversation put through a preset of the guard, turn by turn, so that somebody can watch it work."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, Final
from uuid import uuid4

from turnwise._support.bounded import read_json
from turnwise.conversation import Conversation
from turnwise.errors import ConversationError, UsageError
from turnwise.forensics import analyze_conversation_forensics, checks_of, replay_pipeline
from turnwise.guard import GuardrailPipeline, PipelineResult
from turnwise.guard.config import Config, preset_names, preset_summary

MOST_TEXT: Final = 1_000_000
"""Characters of a conversation that is pasted."""

MOST_TURNS: Final = 500
"""Turns of a conversation that is tried."""

_SPEAKERS: Final = {
    **dict.fromkeys(("user", "human", "prompt", "initiator", "customer", "u"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "response", "responder", "model", "agent", "a"), "assistant"),
}
"""Words that a line may begin with, before a colon, and whose words follow."""


def read_pasted(text: str) -> Conversation:
    """The conversation that somebody pasted: JSON in any form that turnwise reads, or plain text.

    In plain text a line that begins with ``user:`` or ``assistant:`` begins what that side says. Without such a
    line all of it is one prompt.

    >>> [(turn.prompt, turn.response) for turn in read_pasted("user: Hi\\nassistant: Hello\\nuser: Bye")]
    [('Hi', 'Hello'), ('Bye', None)]
    """
    if not text.strip():
        raise UsageError("paste or type a conversation first")
    if len(text) > MOST_TEXT:
        raise UsageError(f"a conversation has at most {MOST_TEXT:,} characters here, not {len(text):,}")
    if text.lstrip()[0] in "[{":
        from turnwise.conversation import from_any

        try:
            chat = from_any(read_json(text))
        except ConversationError:
            raise
        except ValueError as error:
            raise ConversationError(f"this text is broken JSON ({error}); begin plain text with user:") from error
    else:
        chat = _of_lines(text)
    if chat.get_turn_count() > MOST_TURNS:
        raise UsageError(f"a conversation has at most {MOST_TURNS} turns here, not {chat.get_turn_count()}")
    return chat


def _of_lines(text: str) -> Conversation:
    said: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        word, colon, rest = line.partition(":")
        speaker = _SPEAKERS.get(word.strip().lower()) if colon else None
        if speaker:
            said.append((speaker, [rest.strip()]))
        elif said:
            said[-1][1].append(line)
        else:
            said.append(("user", [line]))
    chat = Conversation("you", "other")
    for number, (speaker, lines) in enumerate(said, start=1):
        words = "\n".join(lines).strip()
        if speaker == "user":
            chat.add_prompt(words)
        elif chat.get_turn_count() == 0 or chat.turn(chat.get_turn_count()).response is not None:
            raise UsageError(f"message {number} is a reply to nothing; put a message of user: before it")
        else:
            chat.add_response(words)
    return chat


class Trials:
    """Pipelines by preset, each built when it is first asked for, and kept: an embedded observer takes a second.

    They have no rate limits, no audit and no state outside of this process. Close them at the end.
    """

    def __init__(self) -> None:
        self._pipelines: dict[str, GuardrailPipeline] = {}
        self._lock = Lock()

    @staticmethod
    def presets() -> dict[str, str]:
        """What each preset is for, by its name."""
        return {name: preset_summary(name) for name in preset_names()}

    def pipeline(self, preset: str) -> GuardrailPipeline:
        """The pipeline of a preset."""
        with self._lock:
            if preset not in self._pipelines:
                self._pipelines[preset] = replay_pipeline(Config.preset(preset))
            return self._pipelines[preset]

    def begin(self, preset: str) -> Trial:
        """A conversation that begins, for messages as they are typed."""
        return Trial(self.pipeline(preset))

    def close(self) -> None:
        """Let go of all pipelines. Closing twice is harmless."""
        with self._lock:
            for pipeline in self._pipelines.values():
                pipeline.close()
            self._pipelines.clear()


class Trial:
    """One conversation under a guard, and what the guard made of each text, in order."""

    def __init__(self, pipeline: GuardrailPipeline) -> None:
        self._pipeline = pipeline
        self._session = f"trial-{uuid4().hex}"  # one trial never weighs on another
        self.conversation = Conversation("you", "other")
        self.checks: list[PipelineResult] = []

    def say(self, text: str) -> PipelineResult:
        """Check a prompt, which becomes a turn."""
        return self._keep(self._pipeline.check_input(text, self.conversation, session_id=self._session))

    def answer(self, text: str) -> PipelineResult:
        """Check the response to the last prompt."""
        return self._keep(self._pipeline.check_output(text, self.conversation, session_id=self._session))

    def replay(self, chat: Conversation) -> Iterator[PipelineResult]:
        """Check a copy of a conversation turn by turn, and yield what came of each text as soon as it is known.

        What is blocked stays said: the next turn is checked all the same, as in ``turnwise guard replay``.
        """
        self.checks, self._session = [], f"trial-{uuid4().hex}"
        for copy, result in checks_of(self._pipeline, chat, self._session):
            self.conversation = copy
            yield self._keep(result)

    def _keep(self, result: PipelineResult) -> PipelineResult:
        self.checks.append(result)
        return self.checks[-1]

    def analysis(self) -> dict[str, Any]:
        """The forensic analysis of the conversation so far, without texts."""
        return analyze_conversation_forensics(self.conversation)
