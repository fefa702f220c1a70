"""A guardrail for the proxy of LiteLLM, in its process. Needs LiteLLM.

In the proxy's configuration::

    guardrails:
      - guardrail_name: turnwise
        litellm_params:
          guardrail: turnwise.integrations.litellm.TurnwiseGuardrail
          mode: [pre_call, post_call]
          default_on: true
          turnwise_preset: customer_service
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from copy import deepcopy
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from turnwise.errors import StateError, TurnwiseError, UsageError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, Mode, open_state_store
from turnwise.guard.messages.checking import unchecked
from turnwise.integrations.checking import afinish, keep_latest
from turnwise.integrations.clients.calls import AdmittedRequest, Guarding, ask, caller_of_proxy, of_reply
from turnwise.integrations.clients.shapes import (
    ReplyEvents,
    as_message,
    as_messages,
    is_chat_chunk,
    items_sent,
    plain,
    put_texts,
    replies_in,
    texts_of,
)
from turnwise.integrations.clients.streams import END, Show
from turnwise.integrations.clients.texts import Leaf, OtherTexts, UnreadError, last_heard, leaves
from turnwise.integrations.openai.completions import CompletionSteps

if TYPE_CHECKING:
    from fastapi import HTTPException

try:
    from litellm.exceptions import GuardrailRaisedException
    from litellm.integrations.custom_guardrail import CustomGuardrail, get_session_id_from_request_data
    from litellm.types.guardrails import GuardrailEventHooks
    from litellm.types.utils import all_litellm_params
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("litellm", error) from error

_ASKED: Final = 10_000
"""Requests whose messages are held until their reply comes, at most."""

_STREAMED: Final = "litellm_server_streaming_classification"
_OWNED: Final = (
    frozenset(all_litellm_params)
    .union(("model", "user", "stream", "timeout", "extra_headers", "extra_query", _STREAMED))
    .difference(
        ("litellm_system_prompt", "user_continue_message", "assistant_continue_message"),
        ("prompt_variables", "custom_prompt_dict", "final_prompt_value"),
    )
)
"""Keys of a request that are LiteLLM's, but for those of which the model reads something."""

_SAID: Final = frozenset({"prompt", "input", "query", "contents", "params"})
"""Where requests that are no chat have what the person says."""

_SPELLED: Final = frozenset({"logprobs", "signature", "encrypted_content"})
_TOLD: Final = _SPELLED | {"model", "system_fingerprint", "embedding"}
"""Keys of what is no text of its own, in requests and in replies."""

_NOTHING: Final[tuple[dict[str, Any], set[str]]] = ({}, set())
_SYSTEM: Final = frozenset(
    {"system", "developer", "instructions", "systemInstruction", "system_instruction", "litellm_system_prompt"}
)
"""Keys and roles of what is said by whoever runs the model."""

_ECHOED: Final = ("instructions", "tools", "tool_choice", "text", "prompt", "reasoning")
_RESPONSES: Final = ("responses", "aresponses", "compact_responses", "acompact_responses")
_TOOL_CALLS: Final = ("call_mcp_tool", "list_mcp_tools")
_PASSED_ON: Final = ("pass_through_endpoint", "allm_passthrough_route", "llm_passthrough_route")


class TurnwiseGuardrail(CustomGuardrail):  # type: ignore[misc, unused-ignore]
    """Checks requests and replies of LiteLLM's proxy: prompts, replies, pieces of replies, tools.

    A blocked request is answered with status 400, or 429 where a rate limit is reached, and never reaches the
    model; redacted ones arrive redacted, in earlier messages as well. Conversations are recognised by their
    messages, apart for each API key and end user; LiteLLM's session id names one, where a request has it.

    Args:
        pipeline: checks the texts; None to make one from the next three.
        turnwise_preset: name of a preset.
        turnwise_config: path of a configuration, in place of a preset.
        turnwise_state: where state is kept, as `turnwise.guard.open_state_store` takes it; proxies of several
            workers need one to share.
        turnwise_trust_system: whether system prompts are yours and need no check; some quote the very orders that
            they are to resist.
        turnwise_explain: whether answers to blocked requests tell reasons and scores, which help to write around
            the guard.
        kwargs: as for LiteLLM's ``CustomGuardrail``.

    Raises:
        UsageError: a preset and a configuration, or no such preset.
        GuardError: a configuration that does not fit.
        StateError: the state store can't be opened.
    """

    def __init__(
        self,
        pipeline: GuardrailPipeline | None = None,
        *,
        turnwise_preset: str | None = None,
        turnwise_config: str | None = None,
        turnwise_state: str | None = None,
        turnwise_trust_system: bool = False,
        turnwise_explain: bool = False,
        **kwargs: Any,
    ) -> None:
        hooks = [GuardrailEventHooks(name) for name in ("pre_call", "post_call", "pre_mcp_call")]
        super().__init__(**{"supported_event_hooks": hooks, **kwargs})
        if turnwise_preset is not None and turnwise_config is not None:
            raise UsageError("turnwise_preset and turnwise_config name a configuration each: give one of them")
        if pipeline is None:
            store = None if turnwise_state is None else open_state_store(turnwise_state)
            if turnwise_config is not None:
                pipeline = GuardrailPipeline(turnwise_config, state_store=store)
            else:
                pipeline = GuardrailPipeline.from_preset(turnwise_preset or "basic", state_store=store)
        self.pipeline = pipeline
        self._explain = turnwise_explain
        self._guarding = Guarding(pipeline, None)
        self._others = OtherTexts(pipeline)
        self._trusted = _SYSTEM if turnwise_trust_system else frozenset()
        self._asked: OrderedDict[str, AdmittedRequest] = OrderedDict()
        self._lock = Lock()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Check a request before the model gets it: what came last in its conversation, and every other text."""
        named, kind = _named(user_api_key_dict, data), str(getattr(call_type, "value", call_type))
        keys = {key for key in data.keys() - _OWNED - self._trusted if not key.startswith("_litellm_")}
        try:
            _refuse_unseen(data, kind, replies=self._event_hook_is_event_type(GuardrailEventHooks.post_call))
            if kind in _TOOL_CALLS:
                keys &= {"mcp_arguments", "mcp_tool_description", "mcp_input_schema"}
                await self._check_tool(data)
            key = "input" if kind in _RESPONSES else "messages"
            rest, seen = await self._check_conversation(data, key, named) if key in keys else _NOTHING
            said = (keys & _SAID) - rest.keys()
            changed = await self._check(leaves(data, said), "check_input", seen, key=named.get("key"))
            for tree, some in ((rest, None), (data, keys - said - rest.keys())):
                changed |= await self._check(leaves(tree, some, _SPELLED), "check_tool_result")
            if changed and kind in _PASSED_ON:
                raise UnreadError(kind, "a request is sent as it came, so nothing can be replaced", "take it out")
        except TurnwiseError as error:
            self._refuse(error)
        return data

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Check a reply before the caller gets it."""
        try:
            tree = plain(response, "the reply")
            changed = await self._check_reply(tree, data, user_api_key_dict, lambda: tree)
        except TurnwiseError as error:
            self._refuse(error)
            return response
        if changed and tree is not response:
            built = type(response)(**tree)
            for key in tree:
                setattr(response, key, getattr(built, key))
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Check a reply in pieces: a chat is passed on as it comes, any other is held until all is checked."""
        named, pieces = _named(user_api_key_dict, request_data), aiter(response)
        held = [await anext(pieces, END)]

        async def following() -> Any:
            return held.pop() if held else await anext(pieces, END)

        reply: CompletionSteps | None = None
        try:
            if held[0] is not END and not is_chat_chunk(held[0]):
                held += [piece async for piece in pieces]
                events = ReplyEvents(held)
                tree = {"texts": events.texts, "events": events.events}
                changed = await self._check_reply(tree, request_data, user_api_key_dict, events.reply)
                for chunk in events.chunks() if changed else held:
                    yield chunk
                return
            reply = CompletionSteps(self._guarding, self._recall(request_data), named, request_data.get("model"))
            steps, given = reply.steps(following), None
            while True:
                step = steps.send(given)
                given = None
                if isinstance(step, Show):
                    yield step.chunk
                else:
                    given = await step.arun()
        except StopIteration:
            return
        except TurnwiseError as error:
            if self._passes(error):
                for chunk in held:
                    yield chunk
                return
            # The answer has begun: LiteLLM makes of this one a last line that tells the error.
            told, name = _told(error, explain=self._explain), self.guardrail_name
            raise GuardrailRaisedException(name, told, should_wrap_with_default_message=False) from None
        finally:
            if reply is not None:
                reply.drop()

    def _passes(self, error: TurnwiseError) -> bool:
        """Whether what can't be read may pass, since the mode of the pipeline refuses nothing."""
        return isinstance(error, UnreadError) and self.pipeline.mode is not Mode.ON

    def _refuse(self, error: TurnwiseError) -> None:
        """Answer a request that does not go on, unless it may pass all the same."""
        if not self._passes(error):
            cause = None if isinstance(error, GuardrailBlocked) else error
            raise _refused(error, explain=self._explain) from cause

    async def _check_tool(self, data: dict[str, Any]) -> None:
        name, arguments = str(data.get("mcp_tool_name") or "unknown"), data.get("mcp_arguments") or {}
        result = await self.pipeline.acheck_tool_call(name, arguments)
        if result.blocked:
            raise GuardrailBlocked(result)
        data["mcp_arguments"] = data["modified_arguments"] = json.loads(result.text)

    async def _check_conversation(
        self, data: dict[str, Any], key: str, named: dict[str, Any]
    ) -> tuple[dict[str, Any], set[str]]:
        """Check what came last in messages; return those that were never checked, and the texts that were now."""
        given = data[key]
        if isinstance(given, str):
            items = [{"role": "user", "content": given}]
        else:
            listed = given if isinstance(given, list) else ()
            items = [plain(item, f"{key}[{at}]") for at, item in enumerate(listed)]
        as_chat = as_messages if key == "input" else list
        messages = as_chat(items)
        heard = last_heard(messages)
        if not heard:
            return _NOTHING
        asked = await afinish(ask(self._guarding, deepcopy(messages[:heard]), named))
        self._remember(data, asked)
        assert asked.sent is not None and asked.result is not None
        sent = [*asked.sent, *messages[heard:]]
        items = deepcopy(items_sent(items, sent) if key == "input" else sent)
        data[key] = items[0]["content"] if isinstance(given, str) and len(items) == 1 else items
        views = [as_message(item) or item for item in items] if key == "input" else items
        chat = self.pipeline.conversation_of(asked.result)
        left = zip(items, unchecked(views, asked.result, chat), strict=True)
        texts = {part.text for part in asked.result.parts or (asked.result,)}
        trusted = self._trusted
        return {key: [item if view and item.get("role") not in trusted else {} for item, view in left]}, texts

    async def _check_reply(
        self, tree: dict[str, Any], data: dict[str, Any], user: Any, whole: Callable[[], Mapping[str, Any]]
    ) -> bool:
        """Check what a reply says, then every other text of it; return whether something was replaced."""
        named, asked = of_reply(_named(user, data)), self._recall(data)
        changed, wanted = False, []
        for message in replies_in(whole()):
            said = [*asked.messages, message]
            result = await self.pipeline.acheck_messages(said, recognised=True, **named)
            if result.blocked:
                raise GuardrailBlocked(result)
            wanted.append([part.text for part in result.parts or (result,)])
            changed |= texts_of([message]) != wanted[-1]
            put_texts(tree, [message], wanted[-1])
        # What a reply repeats of its request was checked there.
        seen = {leaf.text or "" for leaf in leaves(data, _ECHOED)}.union(*wanted)
        changed |= await self._check(leaves(tree, skip=_TOLD), "check_output", seen)
        if wanted != [texts_of([message]) for message in replies_in(whole())]:
            raise UnreadError("the reply", "what must be replaced is in several of its parts", "ask again")
        return changed

    async def _check(self, found: Iterable[Leaf], method: str, seen: Collection[str] = (), **named: Any) -> bool:
        return await afinish(self._others.check(found, method, seen, **named))

    def _remember(self, data: Mapping[str, Any], asked: AdmittedRequest) -> None:
        """Hold the messages of a request as the caller sent them, until the reply comes."""
        with self._lock:
            keep_latest(self._asked, str(data.get("litellm_call_id")), asked, _ASKED)

    def _recall(self, data: Mapping[str, Any]) -> AdmittedRequest:
        with self._lock:
            asked = self._asked.pop(str(data.get("litellm_call_id")), None)
        if asked is not None:
            return asked
        messages = data.get("messages")
        given = [dict(message) for message in messages] if isinstance(messages, list) else []
        return AdmittedRequest(given, given, None)


def _refuse_unseen(data: Mapping[str, Any], kind: str, *, replies: bool) -> None:
    """Refuse calls whose texts LiteLLM does not give to guardrails; ``replies``: replies are to be checked too."""
    if "realtime" in kind or kind.endswith("websocket"):
        raise UnreadError(kind, "no guardrail hears what is said there", "use chat completions or responses")
    if kind not in _PASSED_ON:
        return
    if not any(key not in _OWNED and data[key] for key in data):
        raise UnreadError(kind, "a body without JSON can't be read", "use an endpoint of LiteLLM's own")
    streamed = data.get("stream") or "stream" in str(data.get("endpoint")) or _STREAMED in data
    unasked = kind == _PASSED_ON[0] and not (data.get("metadata") or {}).get("guardrails")
    if replies and (streamed or unasked):
        do = "ask without stream, and name this guardrail under guardrails of the pass-through endpoint"
        raise UnreadError(kind, "LiteLLM gives the reply to no guardrail", do)


def _named(user: Any, data: dict[str, Any]) -> dict[str, Any]:
    api_key, end_user = (getattr(user, key, None) for key in ("api_key", "end_user_id"))
    return caller_of_proxy(api_key, end_user, get_session_id_from_request_data(data))


def _refused(error: TurnwiseError, *, explain: bool) -> HTTPException:
    """The answer to a request that does not go on; nothing of its text is part of it."""
    from fastapi import HTTPException

    told: dict[str, Any] = {"error": _told(error, explain=explain)}
    if not isinstance(error, GuardrailBlocked):
        return HTTPException(400, {**told, "type": type(error).__name__})
    result = error.result
    told |= {"reasons": list(result.reasons)} if explain else {}
    return HTTPException(429 if result.rate_limited else 400, {**told, "turn_number": result.turn_number})


def _told(error: TurnwiseError, *, explain: bool) -> str:
    if isinstance(error, GuardrailBlocked) and not explain:
        return error.brief
    return "the guard can't keep its state" if isinstance(error, StateError) else str(error)
