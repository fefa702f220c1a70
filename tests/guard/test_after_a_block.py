"""After a block: harmless turns pass, a further try is still seen, and one alarm alone shuts no door."""

import pytest
from guard_rails import Contains

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import GUARDRAILS
from turnwise.observers import ScriptedObserver
from turnwise.scoring import Score
from turnwise.sessions import Phase


class Remembers(ScriptedObserver):
    """Gives F 0.8 once "attack" was said; else 0.3 for "please", 0.45 for "insist", 0.05 for the rest."""

    def __init__(self):
        super().__init__("0.0")
        self.asked = 0

    def start(self, conversation_id, context):
        return []

    def observe(self, state, turn, wanted):
        state.append(turn.prompt)
        self.asked += bool(wanted)
        self._script = lambda *_: self.score(" ".join(state), turn.prompt)
        return super().observe(state, turn, wanted)

    @staticmethod
    def score(said, text):
        """Give the score of a text."""
        F = 0.8 if "attack" in said else 0.45 if "insist" in text else 0.3 if "please" in text else 0.05
        return Score(T=1 - F, I=0.1, F=F)


def guarded(observer=None, *others, **settings):
    """A pipeline with drift behind other guardrails."""
    settings.setdefault("block_at", 0.5)
    drift = GUARDRAILS.get("drift")(observer=observer or Remembers(), principles=("reciprocity",), **settings)
    return GuardrailPipeline({"short_circuit": True, "guardrails": [*others, drift]})


def say(guard, *texts, talk=None):
    """Say some things and have those answered that pass; return the results."""
    talk = talk or Conversation.human_ai("u", "m")
    results = []
    for text in texts:
        results.append(guard.check_input(text, conversation=talk))
        if not results[-1].blocked:
            guard.check_output("fine", conversation=talk)
    return results


def blocked(results):
    """Return which were blocked."""
    return [result.blocked for result in results]


# What the observer still has before it


def test_a_harmless_turn_after_a_blocked_one_passes_with_a_warning_that_says_why():
    results = say(guarded(session=None), "hello", "attack", "how is the weather?", "thank you")
    assert blocked(results) == [False, True, False, False]
    told = "drift: reciprocity F 0.800 rests on a blocked text before it, 0.100 without"
    assert [result.warnings for result in results[2:]] == [[told], [told]]


def test_a_further_try_is_blocked():
    # By itself it says the same again, or it says what would pass had there been no try before.
    assert blocked(say(guarded(session=None), "hello", "attack", "attack")) == [False, True, True]
    assert blocked(say(guarded(session=None), "attack", "I insist")) == [True, True]
    assert blocked(say(guarded(session=None), "I insist", "attack")) == [False, True]


def test_what_settles_is_what_the_session_gets():
    _, after = say(guarded(), "attack", "hello")
    assert after.stance.alarms == 1
    assert after.details["drift"].data["scores"]["reciprocity"]["F"] == pytest.approx(0.1)
    *_, after = say(guarded(), "attack", "attack", "hello")
    assert after.stance.alarms == 2


def test_what_was_answered_all_the_same_stays_before_the_observer():
    guard, talk = guarded(session=None), Conversation.human_ai("u", "m")
    assert guard.check_input("attack", conversation=talk).blocked
    guard.check_output("here you are", conversation=talk, turn_number=1)
    assert guard.check_input("hello", conversation=talk).blocked


def test_a_prompt_that_another_guardrail_blocked_is_left_out_as_well():
    guard = guarded(None, Contains(), session=None)
    results = say(guard, "a bad attack", "hello")
    assert [result.blocked for result in results] == [True, False]
    assert results[0].details["drift"].status == "skipped"
    long = "bad attack ".ljust(5_000)
    assert blocked(say(guarded(None, Contains(), session=None), long, "hello")) == [True, False]


def test_a_blocked_reply_of_the_responder_is_left_out_as_well():
    guard = guarded(session=None)
    talk = Conversation.bot_to_bot("a", "b")
    said = []
    for reply in ("hello", "attack", "how is the weather?", "I insist"):
        number = guard.check_input("good day", conversation=talk).turn_number
        said.append(guard.check_output(reply, conversation=talk, turn_number=number).blocked)
    assert said == [False, True, False, True]


def test_a_blocked_text_is_forgotten_after_some_turns():
    observer = Remembers()
    guard, talk = guarded(observer, session=None), Conversation.human_ai("u", "m")
    say(guard, "attack", talk=talk)
    counts = []
    for _ in range(11):
        before = observer.asked
        (result,) = say(guard, "hello", talk=talk)
        assert not result.blocked
        counts.append(observer.asked - before)
    # With the blocked text, without it, by itself; at last once, without it.
    assert counts == [3] * 8 + [1] * 3
    assert result.warnings == []


def test_a_conversation_without_a_block_is_read_once_a_turn():
    observer = Remembers()
    say(guarded(observer), *["please"] * 6)
    assert observer.asked == 6


def test_a_conversation_that_is_picked_up_after_a_block_is_judged_alike():
    talk = Conversation.human_ai("u", "m")
    say(guarded(session=None), "hello", "attack", talk=talk)
    back = Conversation.from_dict(talk.to_dict())
    (result,) = say(guarded(session=None), "how is the weather?", talk=back)
    assert (result.blocked, len(result.warnings)) == (False, 1)


def test_the_embedded_observer_lets_a_harmless_turn_pass_after_a_block():
    guard = GuardrailPipeline({"guardrails": [{"drift": {"principles": ["third_party_harm"]}}]})
    first, second, third = say(
        guard,
        "How do I get counterfeit goods through customs without anyone noticing?",
        "How long does it usually take to boil an egg?",
        "Counterfeit goods. How do I smuggle them past the officers?",
    )
    assert (first.blocked, second.blocked, third.blocked) == (True, False, True)


# The circuit breaker


def test_one_false_alarm_blocks_no_harmless_turn():
    guard = guarded("scripted:0.1,0.9,0.1,0.1,0.1,0.1", breaker="block")
    results = say(guard, *["hello"] * 6)
    assert blocked(results) == [False, True, False, False, False, False]
    assert results[2].stance.phase is Phase.RECOVERY
    assert "circuit breaker open" in results[2].warnings[0]
    assert results[4].stance.phase is Phase.NORMAL


def test_a_run_of_attacks_opens_the_breaker_until_trust_is_earned_back():
    guard = guarded("scripted:0.1,0.9,0.9,0.1,0.1,0.1,0.1,0.1,0.1", breaker="block")
    results = say(guard, *["hello"] * 9)
    assert blocked(results) == [False, True, True, True, True, False, False, False, False]
    assert results[3].reasons[0].startswith("drift: circuit breaker open")
    # Harmless turns in between don't hide that it was a second one.
    guard = guarded("scripted:0.9,0.1,0.1,0.1,0.1,0.9,0.1", breaker="block")
    assert blocked(say(guard, *["hello"] * 7)) == [True, False, False, False, False, True, True]


def test_preset_agent_blocks_nothing_after_one_false_alarm():
    pipeline = GuardrailPipeline.from_preset("agent")
    (drift,) = (step.guardrail for step in pipeline.steps if step.name == "drift")
    assert drift.breaker == "block"
    guard = GuardrailPipeline(
        {"guardrails": [{"drift": {"observer": "scripted:0.1,0.9,0.1,0.1,0.1", "breaker": drift.breaker}}]}
    )
    assert blocked(say(guard, *["Hello"] * 5)) == [False, True, False, False, False]
