"""A guardrail for the proxy of LiteLLM, in its process.

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

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from turnwise.errors import TurnwiseError, UsageError
from turnwise.guard import GuardrailBlocked, GuardrailPipeline, PipelineResult, open_state_store
from turnwise.guard.identity.names import canonical_name
from turnwise.integrations.openai.calls import Asked, Guarding, afinish, ask, of_reply
from turnwise.integrations.openai.replies import redact_choice, says_anything
from turnwise.integrations.openai.streams import END, ReplySteps, Show

if TYPE_CHECKING:
    from fastapi import HTTPException

try:
    from litellm.exceptions import GuardrailRaisedException
    from litellm.integrations.custom_guardrail import CustomGuardrail, get_session_id_from_request_data
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("litellm", error) from error

_ASKED: Final = 10_000
"""Requests whose messages are held until their reply comes, at most."""

_TEXTS: Final = ("prompt", "input")
"""Where requests that are no chat have their texts."""


class TurnwiseGuardrail(CustomGuardrail):  # type: ignore[misc, unused-ignore]
    """Checks requests and replies of LiteLLM's proxy: prompts, replies, pieces of replies, tools.

    A blocked request is answered with status 400 and never reaches the model; redacted ones arrive redacted, in
    earlier messages as well. Conversations are recognised by their messages, apart for each API key and end user;
    LiteLLM's session id names one, where a request has it.

    Args:
        pipeline: checks the texts; None for one that is made of the next three.
        turnwise_preset: name of a preset.
        turnwise_config: path of a configuration, in place of a preset.
        turnwise_state: where state is kept, as `turnwise.guard.open_state_store` takes it; proxies of several
            workers need one to share.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if turnwise_preset is not None and turnwise_config is not None:
            raise UsageError("turnwise_preset and turnwise_config name a configuration each: give one of them")
        if pipeline is None:
            store = None if turnwise_state is None else open_state_store(turnwise_state)
            if turnwise_config is not None:
                pipeline = GuardrailPipeline(turnwise_config, state_store=store)
            else:
                pipeline = GuardrailPipeline.from_preset(turnwise_preset or "basic", state_store=store)
        self.pipeline = pipeline
        self._guarding = Guarding(pipeline, None, awaited=True)
        self._asked: OrderedDict[str, Asked] = OrderedDict()
        self._lock = Lock()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Check a request before the model gets it."""
        named = _named(user_api_key_dict, data)
        if isinstance(data.get("messages"), list):
            try:
                asked = await afinish(ask(self._guarding, data["messages"], named))
            except TurnwiseError as error:
                raise _refused(error) from None
            data["messages"] = asked.sent
            self._remember(data, asked)
            return data
        for key in _TEXTS:
            if data.get(key) is not None:
                data[key] = await self._checked_texts(data[key], named)
        return data

    async def async_post_call_success_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any
    ) -> Any:
        """Check a reply before the caller gets it."""
        named, asked = of_reply(_named(user_api_key_dict, data)), self._recall(data)
        for choice in getattr(response, "choices", None) or ():
            if not hasattr(choice, "message"):
                choice.text = await self._checked_texts(choice.text, named, output=True)
                continue
            message = choice.message.model_dump(exclude_none=True, warnings=False)
            if not says_anything(message):
                continue
            try:
                result: PipelineResult = await self.pipeline.acheck_messages(
                    [*asked.messages, {**message, "role": "assistant"}], recognised=True, **named
                )
            except TurnwiseError as error:
                raise _refused(error) from None
            if result.blocked:
                raise _refused(GuardrailBlocked(result))
            redact_choice(choice, result)
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Check a reply that comes in pieces, and pass on what may be shown as it comes."""
        named, asked = _named(user_api_key_dict, request_data), self._recall(request_data)
        pieces: AsyncIterator[Any] = aiter(response)

        async def following() -> Any:
            return await anext(pieces, END)

        reply = ReplySteps(self._guarding, asked, named, request_data.get("model"))
        steps, given = reply.steps(following), None
        try:
            while True:
                step = steps.send(given)
                given = None
                if isinstance(step, Show):
                    yield step.chunk
                else:
                    given = await step.call(*step.given, **step.named)
        except StopIteration:
            return
        except TurnwiseError as error:
            # The answer has begun: LiteLLM makes of this one a last line that tells the error.
            blocked = isinstance(error, GuardrailBlocked)
            told, name = str(error) if blocked else "the guard can't check this reply", self.guardrail_name
            raise GuardrailRaisedException(name, told, should_wrap_with_default_message=False) from None
        finally:
            reply.drop()

    async def _checked_texts(self, given: Any, named: Mapping[str, Any], *, output: bool = False) -> Any:
        """Check texts that are no chat, each by itself; return them as they may go on."""
        if isinstance(given, list) and any(isinstance(one, str) for one in given):
            return [await self._checked_texts(one, named, output=output) for one in given]
        if not isinstance(given, str):
            return given
        try:
            if output:
                result = await self.pipeline.acheck_output(given)
            else:
                result = await self.pipeline.acheck_input(given, key=named.get("key"))
        except TurnwiseError as error:
            raise _refused(error) from None
        if result.blocked:
            raise _refused(GuardrailBlocked(result))
        return result.text

    def _remember(self, data: Mapping[str, Any], asked: Asked) -> None:
        """Hold the messages of a request as the caller sent them, until the reply comes."""
        with self._lock:
            self._asked[str(data.get("litellm_call_id"))] = asked
            while len(self._asked) > _ASKED:
                self._asked.popitem(last=False)

    def _recall(self, data: Mapping[str, Any]) -> Asked:
        with self._lock:
            asked = self._asked.pop(str(data.get("litellm_call_id")), None)
        if asked is not None:
            return asked
        messages = data.get("messages")
        plain = [dict(message) for message in messages] if isinstance(messages, list) else []
        return Asked(plain, plain, None)


def scoped_name(scope: str, session_id: str) -> str:
    """Return the name of a conversation that a caller names, so that those of two API keys never meet."""
    return f"litellm-{sha256(f'{scope}|{session_id}'.encode()).hexdigest()[:32]}"


def _named(user: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Return whose conversation a request is of."""
    api_key, end_user = (str(getattr(user, key, None) or "") for key in ("api_key", "end_user_id"))
    end_user = canonical_name(end_user)
    scope = f"{api_key}|{end_user}"
    named: dict[str, Any] = {"scope": scope}
    if end_user or api_key:
        named["key"] = end_user or api_key
    session = get_session_id_from_request_data(data)
    if session:
        named["conversation_id"] = scoped_name(scope, session)
    return named


def _refused(error: TurnwiseError) -> HTTPException:
    """Return the answer to a request that does not go on; nothing of its text is part of it."""
    from fastapi import HTTPException

    if not isinstance(error, GuardrailBlocked):
        return HTTPException(400, {"error": "the guard can't check this request", "type": type(error).__name__})
    result = error.result
    told = {"error": str(error), "reasons": list(result.reasons), "turn_number": result.turn_number}
    return HTTPException(429 if result.rate_limited else 400, told)
