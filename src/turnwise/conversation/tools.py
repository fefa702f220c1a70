"""The tools of a conversation: calls and results become parts of the turn that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

from turnwise.conversation.history import History
from turnwise.conversation.message_entries import arguments_text
from turnwise.conversation.message_formats import has_response, messages_of_turn, only_beside_calls
from turnwise.conversation.tool_log import CALLS, RESULTS, Step, ToolCall, ToolLog, ToolResult
from turnwise.conversation.turn import CHECKING_KEYS, CHECKING_TOOLS, MESSAGE_KEYS, OPENAI_KEY, Side, Turn
from turnwise.errors import ConversationError

_LOOKED_BACK: Final = 20  # turns among which the call of a result is looked for, from the last one back
_READ: Final = 64  # turns whose calls and results are held ready


class Tools:
    """The calls and results of tools between the prompts and responses of a history.

    A turn with tools keeps its messages in its metadata under ``messages``, in OpenAI's shape; `Turn.tool_calls`
    and `Turn.tool_results` read them. Adding one takes constant time.

    Args:
        history: the turns.
    """

    __slots__ = ("_history", "_logs")

    def __init__(self, history: History) -> None:
        self._history = history
        self._logs: dict[int, ToolLog] = {}

    def __reduce__(self) -> tuple[type[Tools], tuple[History]]:
        # What is held ready is read again.
        return Tools, (self._history,)

    def add_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any] = "{}",
        *,
        call_id: str | None = None,
        turn_number: int | None = None,
    ) -> ToolCall:
        """Add the call of a tool to the turn that it belongs to, and return it.

        That turn is the oldest that waits for its response, else the last one; where its prompt is blocked, or
        there is none, a new turn with an empty prompt. What the responder said in that turn so far then counts as
        a text beside the call, and the turn waits for its response again.

        Args:
            name: name of the tool.
            arguments: JSON text as the model gave it, or a mapping.
            call_id: its id; by default one is made up. One that the turn has already gets a number behind it.
            turn_number: the turn, where it is another one.

        Raises:
            ConversationError: a name that is no text or is empty, arguments that are neither text nor JSON values,
                or no turn has that number.

        >>> from turnwise.conversation import Conversation
        >>> chat = Conversation.from_turns([("Is it cold?", None)])
        >>> call = chat.tools.add_call("weather", {"city": "Oslo"}, call_id="c1")
        >>> chat.tools.add_result("3 degrees", call_id="c1").name
        'weather'
        >>> [message["role"] for message in chat.to_messages()]
        ['user', 'assistant', 'tool']
        """
        return self.take_call(name, arguments, call_id=call_id, turn_number=turn_number)[1]

    def add_result(
        self,
        content: str,
        *,
        call_id: str | None = None,
        name: str | None = None,
        turn_number: int | None = None,
    ) -> ToolResult:
        """Add what a tool gave back to the turn of its call, and return it.

        Where no call waits for it, one with empty arguments is added, since providers refuse a result that comes
        alone.

        Args:
            content: its text.
            call_id: id of the call that it answers; by default the first one that waits for a result.
            name: name of the tool, where it is known.
            turn_number: the turn; by default that of the call, else as for `add_call`.

        Raises:
            ConversationError: content that is no text, or no turn has that number.
        """
        return self.take_result(content, call_id=call_id, name=name, turn_number=turn_number)[1]

    def take_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any],
        *,
        call_id: str | None = None,
        turn_number: int | None = None,
        checking: bool = False,
        moved: Callable[[Any, str], Any] | None = None,
    ) -> tuple[Turn, ToolCall]:
        """Add a call as `add_call` does, for a guard; return the turn as well.

        A call that the turn has already with this id, name and arguments, and that nobody checked, is taken as it
        is.

        Args:
            checking: whether readers must wait until `annotate` releases it.
            moved: is given what a guard kept of the turn, and the id under which the text that was its response
                now stands beside calls; returns what is to be kept.
            name, arguments, call_id, turn_number: as for `add_call`, whose errors are raised too.
        """
        if not isinstance(name, str) or not name:
            raise ConversationError("the name of a tool must be text that is not empty")
        text = arguments if isinstance(arguments, str) else _json(arguments)
        with self._history.lock:
            turn = self._turn_of_call(turn_number)
            log = self._tool_log(turn)
            call = log.calls.get(call_id or "")
            if call is None or (call.name, call.arguments) != (name, text) or _checked(turn, CALLS, call.call_id):
                spoken = self._spoken(turn, log)
                call = log.add_call(name, text, call_id)
                if spoken:
                    self._let_go_on(turn, log, call, moved)
            return self._marked(turn, CALLS, call, checking=checking), call

    def take_result(
        self,
        content: str,
        *,
        call_id: str | None = None,
        name: str | None = None,
        turn_number: int | None = None,
        checking: bool = False,
        moved: Callable[[Any, str], Any] | None = None,
    ) -> tuple[Turn, ToolResult]:
        """Add a result as `add_result` does, for a guard; return the turn as well.

        A result that the turn has already with this id and content, and that nobody checked, is taken as it is.
        The arguments are those of `add_result`, whose errors are raised too, and of `take_call`.
        """
        if not isinstance(content, str):
            raise ConversationError(f"the content of a tool's result is {type(content).__name__}, not text")
        with self._history.lock:
            turn = self._turn_of_result(call_id, turn_number)
            log = self._tool_log(turn)
            result = log.results.get(call_id or "")
            if result is None or result.content != content or _checked(turn, RESULTS, result.call_id):
                call = log.waiting(call_id, name)
                spoken = self._spoken(turn, log) if call is None else self._only_beside_calls(turn, log)
                result = log.add_result(content, call_id, name)
                if spoken:
                    # Without a call that waits the latest stands in; the result may have an id of its own.
                    self._let_go_on(turn, log, call or next(reversed(log.calls.values())), moved)
            return self._marked(turn, RESULTS, result, checking=checking), result

    def replace_text(self, number: int, section: str, identity: str, text: str) -> None:
        """Put another text in the place of a call's arguments or a result's content.

        Args:
            number: the turn.
            section: ``tool_calls`` or ``tool_results``.
            identity: the id of the call.
            text: the new text.

        Raises:
            ConversationError: no turn has that number, or it has no such call or result.
        """
        with self._history.lock:
            log = self._tool_log(self._history.turn(number))
            steps: Mapping[str, Step] = log.calls if section == CALLS else log.results
            if identity not in steps:
                raise ConversationError(f"turn {number} has no such part of {section} to replace")
            log.replace(steps[identity], text)

    # Which turn, and what becomes of it

    def _turn_of_call(self, number: int | None) -> Turn:
        if number is not None:
            return self._history.turn(number)
        first = self._history.first_open
        if first is not None:
            return first
        last = self._history.last
        if last is not None and not last.withheld(Side.PROMPT):
            return last
        return self._history.add("", timestamp=self._history.now())

    def _turn_of_result(self, call_id: str | None, number: int | None) -> Turn:
        if number is not None or not call_id:
            return self._turn_of_call(number)
        turns = self._history.turns
        for turn in reversed(turns[max(0, len(turns) - _LOOKED_BACK) :]):
            if any(key in turn.own_metadata for key in MESSAGE_KEYS):
                log = self._tool_log(turn, keep=False)
                found = log.results.get(call_id)
                if log.waiting(call_id) or (found and not _checked(turn, RESULTS, call_id)):
                    return turn
        return self._turn_of_call(None)

    def latest_calls(self, turn: Turn, most: int | None = None) -> list[ToolCall]:
        """Return the latest calls of a turn, the latest first; messages that were read are not read again."""
        with self._history.lock:
            return [*islice(reversed(self._tool_log(turn, keep=False).calls.values()), most)]

    def latest_results(self, turn: Turn, most: int | None = None) -> list[ToolResult]:
        """Return what tools gave back in a turn, the latest first; as `latest_calls`."""
        with self._history.lock:
            return [*islice(reversed(self._tool_log(turn, keep=False).results.values()), most)]

    def _tool_log(self, turn: Turn, *, keep: bool = True) -> ToolLog:
        """The calls and results of a turn; with `keep`, its messages stay in its metadata in OpenAI's form."""
        kept = turn.own_metadata.get(OPENAI_KEY)
        log = self._logs.get(turn.number)
        if log is None or log.messages is not kept or log.read != len(log.messages):
            log = ToolLog(messages_of_turn(turn, whole=False))
        if keep:
            for key in MESSAGE_KEYS:
                turn.own_metadata.pop(key, None)
            turn.own_metadata[OPENAI_KEY] = log.messages
            self._logs[turn.number] = log
            if len(self._logs) > _READ:
                del self._logs[next(iter(self._logs))]
        return log

    def _spoken(self, turn: Turn, log: ToolLog) -> bool:
        """Whether the turn has a response; it turns out to be a text beside calls and joins the messages."""
        if turn.response is None or turn.own_metadata.get(CHECKING_KEYS[Side.RESPONSE]) is True:
            return False
        if not has_response(log.messages, turn.response):
            log.messages.append({"role": "assistant", "content": turn.response})
            log.catch_up()
        return True

    def _only_beside_calls(self, turn: Turn, log: ToolLog) -> bool:
        return turn.response is not None and only_beside_calls(log.messages, turn.response)

    def _let_go_on(
        self, turn: Turn, log: ToolLog, call: ToolCall, moved: Callable[[Any, str], Any] | None
    ) -> None:
        """Let a turn whose response stands beside calls wait for its response again."""
        self._history.reopen(turn)
        if moved is not None and turn.checks is not None:
            turn.checks = moved(turn.checks, log.first_calls[call.place.message])

    def _marked(self, turn: Turn, section: str, step: Step, *, checking: bool) -> Turn:
        if checking:
            turn.own_metadata.setdefault(CHECKING_TOOLS, []).append([section, step.call_id])
        return turn

    def settle(self, turn: Turn) -> None:
        """Put a response behind the messages of its turn where it repeats what was said beside calls."""
        kept = turn.own_metadata.get(OPENAI_KEY)
        # Most agents say nothing beside their calls, so that most turns are spared the reading.
        if isinstance(kept, list) and any(map(_speaks, kept)):
            log = self._tool_log(turn, keep=False)
            if log and self._only_beside_calls(turn, log):
                turn.own_metadata[OPENAI_KEY] = [*log.messages, {"role": "assistant", "content": turn.response}]

    def reopen_last(self) -> None:
        """Let the last turn wait again where all that was said in it stands beside calls of its messages."""
        turn = self._history.last
        if turn is not None and turn.response is not None and OPENAI_KEY in turn.own_metadata:
            log = self._tool_log(turn, keep=False)
            if log and self._only_beside_calls(turn, log):
                self._history.reopen(turn)


def _speaks(message: object) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant" and message.get("content") is not None


def _checked(turn: Turn, section: str, identity: str) -> bool:
    """Whether a guard looked at a call or result of a turn, or does so now."""
    if [section, identity] in turn.own_metadata.get(CHECKING_TOOLS, ()):
        return True
    checks = turn.checks
    records = checks.get(section) if hasattr(checks, "get") else None
    return isinstance(records, Mapping) and identity in records


def _json(arguments: object) -> str:
    if not isinstance(arguments, Mapping):
        raise ConversationError(
            f"arguments is {type(arguments).__name__}; use JSON text, or a mapping of JSON values"
        )
    try:
        return arguments_text(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConversationError(f"arguments can't be written as JSON: {error}; use JSON values only") from None
