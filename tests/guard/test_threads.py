"""Several threads on one conversation: every verdict on its own turn, and limits that hold."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from guard_rails import Contains, Waits

from turnwise import Conversation, GuardrailPipeline

THREADS = 8


def together(work):
    """Run `work` with the numbers 0 to 7 at the same moment, and return what it gave."""
    barrier = Barrier(THREADS)

    def begin(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def test_every_verdict_is_on_its_own_turn():
    guard = GuardrailPipeline(
        {"short_circuit": False, "guardrails": [Contains(), {"drift": {"observer": "scripted:0.1"}}]}
    )
    talk = Conversation.human_ai("u", "m")

    def work(number):
        said = []
        for step in range(20):
            text = f"{'bad' if (number + step) % 3 == 0 else 'good'} {number} {step}"
            asked = guard.check_input(text, conversation=talk)
            answer = f"{'bad' if step % 4 == 0 else 'good'} answer {number} {step}"
            told = guard.check_output(answer, conversation=talk, turn_number=asked.turn_number)
            said.append((asked, told, text, answer))
        return said

    checks = [check for said in together(work) for check in said]
    assert len(talk.turns) == len(checks) == 160
    assert sorted(asked.turn_number for asked, *_ in checks) == list(range(1, 161))
    for asked, told, text, answer in checks:
        turn = talk.turn(asked.turn_number)
        assert (turn.prompt, turn.response, told.turn_number) == (text, answer, asked.turn_number)
        kept = turn.metadata["guardrail_results"]
        assert kept["input"]["blocked"] is asked.blocked is text.startswith("bad")
        assert kept["output"]["blocked"] is told.blocked is answer.startswith("bad")
        assert asked.details["drift"].data["turn"] == asked.turn_number


def test_a_limit_of_twenty_admits_exactly_twenty():
    guard = GuardrailPipeline({"guardrails": [Contains()]})
    for _ in range(100):
        talk = Conversation.human_ai("u", "m", rate_limit={"turns_per_hour": 20})
        counts = together(
            lambda _, talk=talk: sum(not guard.check_input("hi", conversation=talk).blocked for _ in range(5))
        )
        assert sum(counts) == 20 == len(talk.turns)
        assert talk.metadata["rate_limit_events"]["count"] == 20


def test_a_limit_of_a_key_admits_exactly_as_many():
    for _ in range(20):
        guard = GuardrailPipeline({"guardrails": [Contains()], "rate_limits": {"per_key": {"day": 7}}})
        counts = together(
            lambda _, guard=guard: sum(not guard.check_input("hi", key="ann").blocked for _ in range(3))
        )
        assert sum(counts) == 7


def test_concurrent_async_conversations_keep_apart():
    guard = GuardrailPipeline({"guardrails": [Waits(), {"drift": {"observer": "scripted:0.1"}}]})

    async def talk(number):
        chat = Conversation.human_ai(f"user {number}", "m")
        blocked = []
        for step in range(10):
            text = "bad" if step == number % 10 else "good"
            blocked.append((await guard.acheck_input(text, conversation=chat)).blocked)
            await guard.acheck_output("fine", conversation=chat, turn_number=step + 1)
        return blocked, chat

    async def all_of_them():
        return await asyncio.gather(*(talk(number) for number in range(16)))

    for number, (blocked, chat) in enumerate(asyncio.run(all_of_them())):
        assert blocked == [step == number % 10 for step in range(10)]
        assert [turn.metadata["guardrail_results"]["blocked"] for turn in chat] == blocked
