"""The OpenAI Agents SDK: its guardrails, made from a pipeline. Needs ``turnwise[agents]``."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, Final, cast

try:
    from agents import (
        Agent,
        FunctionTool,
        GuardrailFunctionOutput,
        Handoff,
        InputGuardrail,
        InputGuardrailTripwireTriggered,
        OutputGuardrail,
        OutputGuardrailTripwireTriggered,
        RunConfig,
        RunContextWrapper,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolOutputGuardrail,
        ToolOutputGuardrailData,
        TResponseInputItem,
    )
    from agents.mcp import MCPServer
    from agents.run import CallModelData, ModelInputData
    from pydantic import TypeAdapter
except ImportError as error:
    from turnwise.integrations import MissingExtraError

    raise MissingExtraError("agents", error) from error

from turnwise.conversation import WITHHELD_RESULT, Conversation
from turnwise.guard import GuardrailPipeline, OnError, PipelineResult
from turnwise.integrations.checking import (
    REFUSAL,
    WITHHELD,
    first_unanswered,
    keep_latest,
    open_turn,
    told,
    was_blocked,
)

NAME: Final = "turnwise"
"""Name of the guardrails, in the SDK's traces and errors."""

_REMEMBERED = 10_000
"""Prompts at most of which is known what a model may read."""


class AgentGuard:
    """A guard around the agents of one conversation, in the SDK's own terms::

        guard = AgentGuard(pipeline, Conversation.human_ai("user_123", "gpt-5"))
        agent = guard.protect(agent)
        try:
            reply = guard.reply(await Runner.run(agent, "Hello!", run_config=guard.run_config()))
        except guard.tripped as tripwire:
            reply = guard.reply(tripwire)

    - An input guardrail that runs before the agent checks the user's messages that nobody has answered, and an
      output guardrail the final output. What they block raises the SDK's own exceptions.
    - Guardrails of each function tool and each tool of a local MCP server check its arguments before it runs, and
      what it gave back. What is blocked there is replaced by a note to the model, and the run goes on.
    - The filter in `run_config` keeps blocked prompts out of every later call of the model, though a session of
      the SDK has them, and replaces the original by redacted text.

    The SDK's guardrails can't change a text. So a prompt that is redacted trips the wire unless `run_config` of
    this guard was asked for; a call whose arguments are redacted is refused; and an output that is redacted trips
    the wire, with the text as it may be shown in `reply`. `Runner.run_streamed` shows text before the SDK asks
    its output guardrails: show what `GuardrailPipeline.astream_output` lets through where that matters.

    Args:
        pipeline: the guard.
        conversation: what the agents' runs belong to, one turn each; `GuardrailPipeline.load_conversation` has one
            that another worker began.
        refusal: what `reply` gives in place of what was blocked.
        session_id: the session; by default what the pipeline's configuration says.
    """

    tripped = (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)
    """The exceptions of the SDK that `reply` understands."""

    def __init__(
        self,
        pipeline: GuardrailPipeline,
        conversation: Conversation,
        *,
        refusal: str = REFUSAL,
        session_id: str | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._conversation = conversation
        self._refusal = refusal
        self._session_id = session_id
        self._filters = False
        self._turn: int | None = None
        self._instead: OrderedDict[str, str] = OrderedDict()
        self._input: InputGuardrail[Any] = InputGuardrail(self._check_input, NAME, run_in_parallel=False)
        self._output: OutputGuardrail[Any] = OutputGuardrail(self._check_output, NAME)
        self._call: ToolInputGuardrail[Any] = ToolInputGuardrail(self._check_call, NAME)
        self._result: ToolOutputGuardrail[Any] = ToolOutputGuardrail(self._check_result, NAME)

    def protect(self, agent: Agent[Any]) -> Agent[Any]:
        """Return a copy of an agent with the guardrails, and of the agents that it hands over to.

        Its MCP servers stay as they are, so that agents of other conversations may share them; the copy reaches
        them through the guardrails. Tools that the provider runs (hosted ones, its own MCP) are not checked.
        """
        return self._protected(agent, {})

    def run_config(self, given: RunConfig | None = None) -> RunConfig:
        """Return a configuration of runs whose model sees no blocked prompts, and redacted text where it was.

        A filter in ``given`` runs first.
        """
        before = None if given is None else given.call_model_input_filter
        self._filters = True

        async def filtered(data: CallModelData[Any]) -> ModelInputData:
            model_data = data.model_data
            if before is not None:
                done = before(data)
                model_data = done if isinstance(done, ModelInputData) else await done
            return ModelInputData([await self._clean(item) for item in model_data.input], model_data.instructions)

        return replace(given or RunConfig(), call_model_input_filter=filtered)

    def reply(self, ended: Any) -> Any:
        """Return what may be shown of a run: its final output, redacted text, or the refusal.

        Args:
            ended: what the run returned, or the exception that tripped.
        """
        if not isinstance(ended, self.tripped):
            return ended.final_output
        info = ended.guardrail_result.output.output_info
        redacted = info.get("text") if isinstance(info, Mapping) else None
        return self._refusal if redacted is None else redacted

    def _protected(self, agent: Agent[Any], known: dict[int, Agent[Any]]) -> Agent[Any]:
        if id(agent) in known:
            return known[id(agent)]
        made = agent.clone(
            input_guardrails=[*agent.input_guardrails, self._input],
            output_guardrails=[*agent.output_guardrails, self._output],
            tools=[self._guarded(tool) if isinstance(tool, FunctionTool) else tool for tool in agent.tools],
            mcp_servers=[cast("MCPServer", _Served(one, self._call, self._result)) for one in agent.mcp_servers],
        )
        known[id(agent)] = made
        made.handoffs = [
            self._protected(one, known) if isinstance(one, Agent) else self._handed(one, known)
            for one in agent.handoffs
        ]
        return made

    def _handed(self, handoff: Handoff[Any, Any], known: dict[int, Agent[Any]]) -> Handoff[Any, Any]:
        async def invoked(context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
            return self._protected(await handoff.on_invoke_handoff(context, arguments), known)

        made = copy(handoff)
        made.on_invoke_handoff = invoked
        return made

    def _guarded(self, tool: FunctionTool) -> FunctionTool:
        return replace(
            tool,
            tool_input_guardrails=[*(tool.tool_input_guardrails or ()), self._call],
            tool_output_guardrails=[*(tool.tool_output_guardrails or ()), self._result],
        )

    # What the SDK asks

    async def _check_input(
        self, context: RunContextWrapper[Any], agent: Agent[Any], given: str | list[TResponseInputItem]
    ) -> GuardrailFunctionOutput:
        result: PipelineResult | None = None
        *earlier, last = _asked(given) or [{"content": ""}]
        for item in (*(one for one in earlier if self._is_new(_text(one)[0])), last):
            text, read = _text(item)
            result = await self._pipeline.acheck_input(text, self._conversation, session_id=self._session_id)
            self._turn = result.turn_number
            unread = not read and self._pipeline.config.on_unread is OnError.BLOCK
            if result.blocked or unread:
                self._replace(text, WITHHELD)
                info = told(result)
                if unread:
                    info["failures"].append("unread: failed: the message holds more than text")
                return GuardrailFunctionOutput(info, tripwire_triggered=True)
            self._replace(text, result.text)
            if result.text != text and not self._filters:
                missing = {"hint": "the prompt is redacted: pass run_config=guard.run_config() to the runner"}
                return GuardrailFunctionOutput({**told(result), **missing}, tripwire_triggered=True)
        return GuardrailFunctionOutput(None if result is None else told(result), tripwire_triggered=False)

    async def _check_output(
        self, context: RunContextWrapper[Any], agent: Agent[Any], output: Any
    ) -> GuardrailFunctionOutput:
        text = _plain(output)
        result = await self._pipeline.acheck_output(
            text,
            self._conversation,
            turn_number=open_turn(self._conversation, self._turn),
            session_id=self._session_id,
        )
        info = told(result)
        redacted = not result.blocked and result.text != text
        if redacted:
            info["text"] = result.text
        return GuardrailFunctionOutput(info, tripwire_triggered=result.blocked or redacted)

    async def _check_call(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        call = data.context
        result = await self._pipeline.acheck_tool_call(
            call.tool_name,
            call.tool_arguments,
            conversation=self._conversation,
            call_id=call.tool_call_id,
            turn_number=self._turn,
            session_id=self._session_id,
        )
        if result.blocked:
            return ToolGuardrailFunctionOutput.reject_content("[call withheld]", told(result))
        if result.text != call.tool_arguments:
            message = f"[call withheld: the arguments may only be {result.text}]"
            return ToolGuardrailFunctionOutput.reject_content(message, told(result))
        return ToolGuardrailFunctionOutput.allow(told(result))

    async def _check_result(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        text = _plain(data.output)
        result = await self._pipeline.acheck_tool_result(
            text,
            conversation=self._conversation,
            call_id=data.context.tool_call_id,
            name=data.context.tool_name,
            turn_number=self._turn,
            session_id=self._session_id,
        )
        if result.blocked or result.text != text:
            shown = WITHHELD_RESULT if result.blocked else result.text
            return ToolGuardrailFunctionOutput.reject_content(shown, told(result))
        return ToolGuardrailFunctionOutput.allow(told(result))

    # What models may read

    def _is_new(self, prompt: str) -> bool:
        """Whether a prompt was never checked: a session gives those that nobody answered again."""
        return prompt not in self._instead and not was_blocked(self._conversation, prompt)

    def _replace(self, text: str, instead: str) -> None:
        keep_latest(self._instead, text, instead, _REMEMBERED)

    async def _may_read(self, prompt: str) -> str:
        """What may be read of a prompt; one that another process checked is checked again, by itself."""
        if prompt not in self._instead:
            withheld = was_blocked(self._conversation, prompt)
            result = None if withheld else await self._pipeline.acheck_input(prompt)
            self._replace(prompt, WITHHELD if result is None or result.blocked else result.text)
        return self._instead[prompt]

    async def _clean(self, item: TResponseInputItem) -> TResponseInputItem:
        """An item of a model's input as the model may read it."""
        known = cast("dict[str, Any]", item)
        if known.get("role") != "user":
            return item
        text = _text(known)[0]
        instead = await self._may_read(text)
        if instead == text:
            return item
        parts = known["content"] if isinstance(known["content"], list) else []
        others = [part for part in parts if "text" not in part]
        # Of a prompt that was blocked nothing goes on, images neither.
        kept = others and instead != WITHHELD
        content = [{"type": "input_text", "text": instead}, *others] if kept else instead
        return cast("TResponseInputItem", {**known, "content": content})


class _Served:
    """An MCP server as it is, but for guardrails of its tools that are of one conversation."""

    def __init__(self, server: MCPServer, call: ToolInputGuardrail[Any], result: ToolOutputGuardrail[Any]) -> None:
        self._server = server
        self.tool_input_guardrails = [*(server.tool_input_guardrails or ()), call]
        self.tool_output_guardrails = [*(server.tool_output_guardrails or ()), result]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def _asked(given: str | list[TResponseInputItem]) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    items = [cast("dict[str, Any]", item) for item in given]
    return items[first_unanswered(items, lambda item: item.get("role") == "user") :]


def _text(item: Mapping[str, Any]) -> tuple[str, bool]:
    """The text of a message, and whether that is all there is."""
    content = item.get("content") or ""
    if isinstance(content, str):
        return content, True
    texts = [part["text"] for part in content if isinstance(part.get("text"), str)]
    return "\n".join(texts), len(texts) == len(content)


def _plain(output: Any) -> str:
    """An output as text; an object as JSON."""
    if isinstance(output, str):
        return output
    return json.dumps(TypeAdapter(type(output)).dump_python(output, mode="json"), ensure_ascii=False, default=str)
