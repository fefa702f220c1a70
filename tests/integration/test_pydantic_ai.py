"""A guard around agents of Pydantic AI: the real package, with a model on the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from framework_agents import DRIFT, GUARD, LONG, RAN, record_of
from model_api import ModelServer, client_of
from model_api import tool as calls
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, FunctionToolResultEvent, ModelRetry, PartDeltaEvent, PartStartEvent
from pydantic_ai.messages import ModelMessage, TextPart, ThinkingPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from turnwise import GuardrailPipeline
from turnwise.guard import GuardrailBlocked, SqliteStateStore
from turnwise.integrations.pydantic_ai import Guard

pytestmark = pytest.mark.integration


class Answer(BaseModel):
    word: str


def lookup(name: str) -> str:
    """Look a customer up."""
    found = record_of(name)
    if name == "spy":
        raise ModelRetry("ask for swordfish")
    return found


def agent(model: ModelServer, config: dict[str, Any] = GUARD, *, output: Any = str, **settings: Any) -> Any:
    client = client_of(AsyncOpenAI, model.url)
    chat = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
    guard = Guard(GuardrailPipeline(config), **settings)
    return Agent(chat, tools=[lookup], output_type=output, capabilities=[guard])


def run(agent: Any, text: str, **settings: Any) -> Any:
    return asyncio.run(agent.run(text, **settings))


def texts(result: Any) -> list[str]:
    return [
        part.content
        for message in result.all_messages()
        for part in message.parts
        if isinstance(getattr(part, "content", None), str)
    ]


def parts_of(result: Any) -> str:
    return str([message.parts for message in result.all_messages()])


def test_a_blocked_prompt_never_reaches_the_model_not_even_with_the_next_one(model: ModelServer) -> None:
    guarded = agent(model, refusal="No.")
    refused = run(guarded, "The password is swordfish")
    assert refused.output == "No." and texts(refused) == ["[message withheld]", "No."]
    told = refused.all_messages()[-1].metadata["turnwise"]
    assert told["blocked"] and told["pipeline_type"] == "input" and told["turn_number"] == 1
    assert not model.seen
    model.say("Hello!")
    assert run(guarded, "Good morning", message_history=refused.all_messages()).output == "Hello!"
    assert "swordfish" not in model.sent()


def test_what_is_redacted_arrives_redacted(model: ModelServer) -> None:
    model.say("I wrote to bob@example.org.")
    result = run(agent(model), "Write to jane@example.com please")
    assert texts(result) == ["Write to [EMAIL] please", "I wrote to [EMAIL]."]
    assert result.output == "I wrote to [EMAIL]."
    assert "jane@example.com" not in model.sent() and "Write to [EMAIL] please" in model.sent()


def test_a_blocked_reply_is_the_refusal(model: ModelServer) -> None:
    model.say("The word is swordfish")
    result = run(agent(model), "Which word?")
    assert texts(result) == ["Which word?", "I can't help with that."]
    assert result.usage.requests == 1


def test_calls_of_tools_and_what_they_give_back_are_checked(model: ModelServer) -> None:
    guarded = agent(model)
    model.say(calls("lookup", name="jane"), "Found.")
    assert texts(run(guarded, "Look Jane up")) == ["Look Jane up", "[EMAIL]", "Found."]
    model.say(calls("lookup", name="mole"), "I can't tell.")
    assert texts(run(guarded, "Look the mole up"))[1:] == ["[tool result withheld]", "I can't tell."]
    model.say(calls("lookup", name="spy"), "I can't either.")
    assert run(guarded, "Look the spy up").output == "I can't either."
    assert "jane@example.com" not in model.sent() and "swordfish" not in model.sent()
    model.say(calls("lookup", name="bob@example.org"), "Nobody.")
    run(guarded, "Look Bob up")
    model.say(calls("lookup", name="swordfish"))
    result = run(guarded, "Look something up")
    assert result.output == "I can't help with that." and RAN == ["jane", "mole", "spy", "[EMAIL]"]
    assert "swordfish" not in parts_of(result)


def test_a_drifting_conversation_is_stopped_also_by_another_process(model: ModelServer, tmp_path: Any) -> None:
    for folder, again in ((tmp_path / "one", False), (tmp_path / "each", True)):
        folder.mkdir()
        history: Any = None
        answers, guarded = [], agent(model, DRIFT, refusal="No.")
        for turn in range(1, 4):
            model.say(f"Answer {turn}")
            with SqliteStateStore(str(folder / "guard.db")) as store:
                if again:
                    guard = Guard(GuardrailPipeline(DRIFT, state_store=store), refusal="No.")
                    guarded = Agent(guarded.model, capabilities=[guard])
                result = run(guarded, f"Question {turn}", message_history=history)
            history = result.all_messages()
            answers.append(result.output)
        assert answers == ["Answer 1", "Answer 2", "No."]
        model.forget()


def test_blocks_can_be_exceptions_and_are_where_the_output_is_no_text(model: ModelServer) -> None:
    with pytest.raises(GuardrailBlocked, match="the input was blocked: keywords"):
        run(agent(model, on_block="raise"), "swordfish")
    model.say("The word is swordfish")
    with pytest.raises(GuardrailBlocked, match="the output was blocked: keywords"):
        run(agent(model, on_block="raise"), "Which word?")
    model.say(calls("final_result", word="swordfish"))
    with pytest.raises(GuardrailBlocked):
        run(agent(model, output=Answer), "Which word?")
    model.say(calls("final_result", word="jane@example.com"))
    assert run(agent(model, output=Answer), "Which word?").output == Answer(word="[EMAIL]")


def test_a_session_may_last_over_conversations(model: ModelServer) -> None:
    drift = {"observer": "scripted:0.1,0.1", "detector": "any_turn", "block_at": 0.8}
    pipeline = GuardrailPipeline({"guardrails": [{"drift": drift}]})
    guarded = agent(model)
    guarded = Agent(guarded.model, capabilities=[Guard(pipeline, session=lambda context: "ann")])
    model.say("Hello!", "Hello again!")
    for _ in range(2):
        run(guarded, "Good morning")
    stance = pipeline.session("ann").stance
    assert stance is not None and stance.interactions == 2


def streamed(guarded: Any, text: str) -> tuple[str, int, Any]:
    """What a stream showed, in how many pieces, and its result."""

    async def talk() -> tuple[str, int, Any]:
        async with guarded.run_stream(text) as result:
            pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
        return "".join(pieces), len(pieces), result

    return asyncio.run(talk())


def test_a_reply_is_shown_while_it_comes_as_far_as_the_guard_lets_it(model: ModelServer) -> None:
    model.say(f"Write to jane@example.com. {LONG}")
    shown, pieces, result = streamed(agent(model), "Whom do I write to?")
    assert shown == f"Write to [EMAIL]. {LONG}" and pieces > 10
    assert texts(result)[-1] == f"Write to [EMAIL]. {LONG}"


def test_a_stream_that_is_blocked_ends_with_the_refusal(model: ModelServer) -> None:
    model.say(f"{LONG} swordfish {LONG * 40}")
    shown, _, result = streamed(agent(model), "Go on")
    assert "swordfish" not in shown and len(shown) <= len(LONG) + len("I can't help with that.")
    assert texts(result)[-1] == "I can't help with that."
    assert model.streamed < 40 * len(LONG)


def test_events_of_a_run_show_nothing_that_is_blocked(model: ModelServer) -> None:
    guarded = agent(model)
    model.say(calls("lookup", name="mole"), calls("lookup", "call_2", name="jane"), "It is swordfish")
    seen: list[Any] = []

    async def handle(_: Any, events: AsyncIterator[Any]) -> None:
        seen.extend([event async for event in events])

    result = run(guarded, "Look them up", event_stream_handler=handle)
    results = [event.part.content for event in seen if isinstance(event, FunctionToolResultEvent)]
    assert results == ["[tool result withheld]", "[EMAIL]"]
    assert result.output == "I can't help with that."
    assert "swordfish" not in str(seen) and "swordfish" not in parts_of(result)
    assert any(isinstance(event, PartStartEvent | PartDeltaEvent) for event in seen)


def test_thinking_is_checked_and_a_reply_that_passes_stays_as_it_is() -> None:
    thoughts = iter(["Ask jane@example.com first.", "The word is swordfish.", "Easy."])

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content=next(thoughts), signature="s")}
        yield "Well."

    made: Any = Agent(FunctionModel(stream_function=reply), capabilities=[Guard(GuardrailPipeline(GUARD))])
    ends = [streamed(made, "Well?")[2].all_messages()[-1].parts for _ in range(3)]
    assert [part.content for part in ends[0]] == ["Ask [EMAIL] first.", "Well."]
    assert ends[0][0].signature is None
    assert [part.content for part in ends[1]] == ["I can't help with that."]
    assert ends[2] == [ThinkingPart("Easy.", signature="s", provider_name="function"), TextPart("Well.")]


def test_a_guardrail_that_fails_takes_the_path_that_is_configured(model: ModelServer) -> None:
    def broken(text: str) -> Any:
        raise RuntimeError("out of order")

    model.say("Hello!")
    allows, blocks = ({"guardrails": [{"use": broken, "on_error": path}]} for path in ("warn", "block"))
    assert run(agent(model, allows), "Hi").output == "Hello!"
    assert run(agent(model, blocks), "Hi").output == "I can't help with that."
    assert len(model.seen) == 1


def test_what_is_no_text_is_treated_as_configured(model: ModelServer) -> None:
    from pydantic_ai import ImageUrl

    image = ["What is this?", ImageUrl("https://example.com/a.png")]
    model.say("A cat.")
    assert run(agent(model), image).output == "A cat."
    assert run(agent(model, {**GUARD, "on_unread": "block"}), image).output == "I can't help with that."
    assert len(model.seen) == 1
