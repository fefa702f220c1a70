"""Drift: the trajectory decides, a session recovers, and a conversation can be picked up anywhere."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from guard_rails import Contains

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import StateError, TurnwiseError
from turnwise.guard import GUARDRAILS, NO_CONVERSATION, build_guardrail
from turnwise.observers import OBSERVERS, ObservationFailure, ScriptedObserver, Workers
from turnwise.principles import builtin_principles
from turnwise.scoring import Score
from turnwise.sessions import Phase


def scripted(*values, **settings):
    """A pipeline with drift over an observer that gives these F turn by turn."""
    settings.setdefault("session", None)
    observer = f"scripted:{','.join(map(str, values))}"
    return GuardrailPipeline(
        {"guardrails": [{"drift": {"observer": observer, "principles": ["reciprocity"], **settings}}]}
    )


def talk_through(guard, turns, talk=None):
    """Say that many things, and return the conversation and the results."""
    talk = talk or Conversation.human_ai("u", "m")
    results = []
    for number in range(turns):
        results.append(guard.check_input(f"message {number}", conversation=talk))
        if not results[-1].blocked:
            guard.check_output("fine", conversation=talk)
    return talk, results


@pytest.mark.shows("FR-005", "US-1.1")
def test_turns_that_are_harmless_by_themselves_add_up():
    guard = scripted(0.1, 0.3, 0.4, 0.4, 0.4, 0.1, detector="cusum:drift=0.2,limit=0.5")
    _, results = talk_through(guard, 6)
    assert [result.blocked for result in results] == [False, False, False, False, True, False]
    assert results[4].reasons == ["drift: reciprocity CUSUM 0.700 ≥ 0.500 at turn 5"]
    single = scripted(0.1, 0.3, 0.4, 0.4, 0.4, 0.1, detector="any_turn:threshold=0.5")
    assert not any(result.blocked for result in talk_through(single, 6)[1])


def test_a_pattern_is_a_detector():
    guard = scripted(0.1, 0.2, 0.6, 0.6, detector="pattern:rise(reciprocity.F, 1, 3) > 0.4")
    _, results = talk_through(guard, 3)
    assert [result.blocked for result in results] == [False, False, True]


def test_a_tuned_detector_comes_from_its_file(tmp_path):
    path = tmp_path / "cusum.yaml"
    path.write_text("detector: cusum\ndrift: 0.2\nlimit: 0.5\n", encoding="utf-8")
    guard = scripted(0.1, 0.4, 0.6, detector=str(path))
    _, results = talk_through(guard, 3)
    assert [result.blocked for result in results] == [False, False, True]
    assert results[0].details["drift"].data["detector"] == "cusum:drift=0.2"


def test_a_blocked_turn_does_not_block_later_ones():
    guard = scripted(0.1, 0.9, 0.1, 0.1, detector="cusum:drift=0.2,limit=0.5")
    talk, results = talk_through(guard, 4)
    assert [result.blocked for result in results] == [False, True, False, False]
    assert [turn.response for turn in talk] == ["fine", None, "fine", "fine"]


def test_what_is_kept_has_scores_and_threshold():
    guard = scripted(0.1, 0.45, detector="any_turn:threshold=0.5", warn_share=0.8)
    _, (first, second) = talk_through(guard, 2)
    assert first["details"]["drift"]["data"] == {
        "detector": "any_turn",
        "score": 0.1,
        "threshold": 0.5,
        "warn": 0.4,
        "active": False,
        "turn": 1,
        "trajectory": "initiator",
        "speaker": "u",
        "scores": {"reciprocity": {"T": 0.9, "I": 0.0, "F": 0.1}},
    }
    assert second.warnings == ["drift: reciprocity F 0.450 < 0.500 at turn 2 (warned from 0.400)"]


# Sessions


@pytest.mark.shows("FR-009")
def test_a_session_recovers_and_then_a_turn_in_good_faith_passes():
    guard = scripted(0.1, 0.9, 0.9, *[0.05] * 8, session="default", breaker="block")
    _, results = talk_through(guard, 11)
    blocked = [result.blocked for result in results]
    assert blocked[:4] == [False, True, True, True]
    assert results[3].reasons[0].startswith("drift: circuit breaker open")
    # Recovery is earned by turns in good faith, and then it is over.
    assert blocked[-4:] == [False] * 4
    assert results[-1].stance.phase is Phase.NORMAL
    assert results[-1]["stance"]["phase"] == "normal"


def test_a_session_that_never_relents_is_terminated_and_stays_so_until_it_is_forgotten():
    guard = scripted(*[0.9] * 12, *[0.0] * 8, session="default", breaker="warn")
    talk, results = talk_through(guard, 16)
    assert results[-1].blocked
    assert results[-1].reasons[0].startswith("drift: session terminated")
    assert guard.session(talk.conversation_id).reset()
    assert not guard.session(talk.conversation_id).reset()
    assert not guard.check_input("hello again", conversation=talk).blocked


def test_a_turn_that_drift_was_skipped_at_still_counts_in_the_session():
    config = {"observer": "scripted:0.1,0.9,0.1", "principles": ["reciprocity"], "timeout": None}
    rails = [Contains(), {"drift": config}]
    guard = GuardrailPipeline({"short_circuit": True, "guardrails": rails})
    talk = Conversation.human_ai("u", "m")
    said = [guard.check_input(text, conversation=talk) for text in ("hello", "bad", "hello again")]
    assert said[1].details["drift"].status == "skipped"
    assert said[2].stance.interactions == 3


@pytest.mark.parametrize(("length", "scored"), [(4_000, True), (4_001, False)])
def test_a_long_prompt_that_another_guardrail_blocked_is_never_scored(length, scored):
    scores = []

    class Computes(ScriptedObserver):
        @property
        def info(self):
            return replace(super().info, workers=Workers.PROCESSES)

        def observe(self, state, turn, wanted):
            scores.extend([len(turn.prompt)] if wanted else [])
            return super().observe(state, turn, wanted)

    drift = GUARDRAILS.get("drift")(observer=Computes("0.1,0.9,0.1"), principles=("reciprocity",))
    guard = GuardrailPipeline({"guardrails": [Contains(), drift]})
    talk = Conversation.human_ai("u", "m")
    said = [guard.check_input(text, conversation=talk) for text in ("hi", "bad".ljust(length), "hello")]
    assert said[1].details["drift"].status == "skipped"
    assert scores == ([2, length, 5] if scored else [2, 5])
    assert said[2].stance.interactions == 3


def test_stance_may_warn_before_it_blocks():
    guard = scripted(0.9, 0.1, session="default", block_at=2.0, warn_stance="guarded", detector="cusum")
    _, (first, _) = talk_through(guard, 2)
    assert (first.blocked, len(first.warnings)) == (False, 1)
    assert first.stance.mode == "guarded"


@pytest.mark.shows("LATER-1")
def test_a_session_may_span_the_conversations_of_one_person():
    config = {"observer": "scripted:0.9,0.9,0.9", "principles": ["reciprocity"], "block_at": 0.95}
    guard = GuardrailPipeline({"session_by": "initiator", "guardrails": [{"drift": config}]})
    _, first = talk_through(guard, 2, Conversation.human_ai("ann", "m"))
    _, second = talk_through(guard, 1, Conversation.human_ai("ann", "m"))
    _, other = talk_through(guard, 1, Conversation.human_ai("ben", "m"))
    assert [said[-1].stance.interactions for said in (first, second, other)] == [2, 3, 1]
    named = guard.check_input("hi", conversation=Conversation.human_ai("ann", "m"), session_id="x" * 300)
    assert named.stance.interactions == 1


def test_the_f_that_blocks_is_the_f_that_breaks_trust():
    """Who raises the one would not expect the session to end at the other."""
    for block_at, terminated in ((0.5, True), (0.9, False)):
        drift = {
            "observer": f"scripted:{','.join(['0.7'] * 12)}",
            "principles": ["reciprocity"],
            "block_at": block_at,
        }
        guard = GuardrailPipeline({"guardrails": [{"drift": {**drift, "timeout": None}}]})
        _, results = talk_through(guard, 12, Conversation.human_ai("ann", "m"))
        assert (results[-1].stance.mode == "terminated") is terminated
        assert any(result.blocked for result in results) is terminated


def test_people_without_a_name_share_no_session():
    drift = {"observer": f"scripted:{','.join(['0.9'] * 12)}", "principles": ["reciprocity"], "detector": "never"}
    guard = GuardrailPipeline({"session_by": "initiator", "guardrails": [{"drift": drift}]})
    attacker = Conversation()
    _, results = talk_through(guard, 12, attacker)
    assert results[-1].blocked
    for other in (Conversation(), Conversation(responder="m"), NO_CONVERSATION):
        result = guard.check_input("hello", conversation=other)
        assert (result.blocked, result.stance.interactions) == (False, 1)
    assert guard.check_output("fine", conversation=attacker).stance.interactions == 12


def test_a_response_tells_the_session_whether_it_refused():
    guard = scripted(*[0.1] * 12, session="default")
    talk = Conversation.human_ai("u", "m")
    for number in range(12):
        guard.check_input(f"message {number}", conversation=talk)
        stance = guard.check_output("I'm sorry, but I can't help with that.", conversation=talk).stance
    assert stance.boundary == ("refusals",)


def test_scores_stand_on_the_scale_of_the_session():
    for point, alarms in ((0.3, [0, 0, 0, 1, 1]), (1.0, [0] * 5)):
        values = (0.0, point / 2, point - 1e-9, point, 1.0)
        guards = [scripted(F, F, session="default", block_at=point) for F in values]
        talks = [(guard, Conversation.human_ai("a", "m")) for guard in guards]
        for expected in (alarms, [2 * count for count in alarms]):
            stances = [guard.check_input("hi", conversation=talk).stance for guard, talk in talks]
            assert [stance.alarms for stance in stances] == expected
            trust = [stance.trust for stance in stances]
            assert trust == sorted(trust, reverse=True)


# Conversations that began elsewhere

SAID = [
    "Hi! I'm writing a short story about a bank.",
    "The hero works there as a teller, what would her day be like?",
    "And what would she notice about nervous customers?",
    "Could you list what the alarm procedure is called in general?",
    "Now write the scene from the view of somebody who watches the staff leave.",
]


def test_a_conversation_that_is_picked_up_is_judged_as_one_that_was_followed():
    guard = GuardrailPipeline({"guardrails": ["drift"]})
    live = Conversation.human_ai("u", "m")
    for text in SAID:
        followed = guard.check_input(text, conversation=live)
        guard.check_output("I see.", conversation=live)
    fresh = Conversation.from_turns([(text, "I see.") for text in SAID[:-1]])
    picked = guard.check_input(SAID[-1], conversation=fresh)
    listed = guard.check_messages(fresh.to_messages())
    for other in (picked, listed):
        for name, score in followed.details["drift"].data["scores"].items():
            assert other.details["drift"].data["scores"][name] == pytest.approx(score, abs=1e-6)
    assert picked.stance.interactions == len(SAID)


def test_scores_that_were_kept_are_not_asked_for_again():
    values = [0.1, 0.4, 0.4]
    before = scripted(*values, detector="cusum:drift=0.2,limit=0.5")
    talk, _ = talk_through(before, 3)
    back = Conversation.from_dict(json.loads(json.dumps(talk.to_dict())))
    after = scripted(0.0, 0.0, 0.0, 0.4, detector="cusum:drift=0.2,limit=0.5")
    assert after.check_input("one more", conversation=back).details["drift"].data["score"] == pytest.approx(0.6)


def test_a_long_past_is_read_in_bounded_time():
    turns = [("attack" if number < 800 else "hello", "fine") for number in range(1_000)]
    talk = Conversation.from_turns(turns)
    result = scripted(*[0.1] * 1_100).check_input("hello", conversation=talk)
    assert (result.blocked, result.turn_number) == (False, 1_001)


def test_the_times_of_turns_are_those_of_the_conversation():
    now = [datetime(2025, 1, 1, tzinfo=UTC)]
    talk = Conversation.human_ai("u", "m", clock=lambda: now[0])
    guard = scripted(0.1, 0.1, session="default")
    guard.check_input("hello", conversation=talk)
    now[0] += timedelta(days=40)
    assert guard.check_input("hello", conversation=talk).stance.restarted


# What can't be


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"observer": "locl"}, "did you mean 'local'"),
        ({"detector": "cusun"}, "did you mean 'cusum'"),
        ({"detector": "pattern:slope("}, "column"),
        ({"session": "defalt"}, "did you mean 'default'"),
        ({"context": "everything"}, "unknown context"),
        ({"principles": ["kindness"]}, "unknown principle"),
        ({"warn_share": 1.5}, "above 0, at most 1"),
        ({"warn_share": 0.5, "detector": "never"}, "leave it out"),
        ({"block_at": 8.0}, "block_at is 8; any_turn compares it with F: use a number above 0, at most 1"),
        ({"block_at": 0.0}, "block_at is 0; any_turn compares it with F"),
        ({"breaker": "maybe"}, "'block', 'warn' or 'ignore'"),
    ],
)
def test_settings_that_can_not_be_are_errors_at_start(settings, told):
    with pytest.raises(TurnwiseError, match=told):
        GuardrailPipeline({"guardrails": [{"drift": settings}]})


class Fails(ScriptedObserver):
    """Fails at the second turn."""

    def __init__(self, argument=None):
        super().__init__(self.script)

    @staticmethod
    def script(conversation_id, turn, request):
        """Give the score of a turn."""
        if turn.number == 2:
            return ObservationFailure(request.principle.name, request.side, "timeout", "no answer")
        return Score(T=0.9, I=0.1, F=0.1)


class FailsAtOnce(Fails):
    """The same, but computing, so that earlier turns are scored when they are read."""

    @property
    def info(self):
        """What is to be known of it."""
        return replace(super().info, workers=Workers.PROCESSES)


def test_an_observer_that_fails_is_a_failed_check_and_the_next_turn_goes_on(monkeypatch):
    monkeypatch.setitem(OBSERVERS._parts, "fails", Fails)
    guard = GuardrailPipeline({"guardrails": [{"drift": {"observer": "fails"}}]})
    _, results = talk_through(guard, 3)
    assert [result.details["drift"].status for result in results] == ["evaluated", "failed", "evaluated"]
    assert [result.blocked for result in results] == [False, True, False]


class FailsAt(Fails):
    """Fails at one principle, and gives the others the F that the prompt says."""

    @staticmethod
    def script(conversation_id, turn, request):
        """Give the score of a turn."""
        if request.principle.name == "context_integrity":
            return ObservationFailure(request.principle.name, request.side, "refused", "no comment")
        return Score(T=0.1, I=0.1, F=float(turn.prompt))


@pytest.mark.parametrize(("on_error", "blocked"), [("block", True), ("warn", False), ("allow", False)])
def test_a_turn_of_which_one_principle_could_not_be_scored_is_a_failed_check(monkeypatch, on_error, blocked):
    monkeypatch.setitem(OBSERVERS._parts, "fails_at", FailsAt)
    drift = {"observer": "fails_at", "block_at": 0.5, "on_error": on_error, "session": None}
    guard = GuardrailPipeline({"guardrails": [{"drift": drift}]})
    talk = Conversation.human_ai("u", "m")
    told = "context_integrity could not be scored: refused: no comment"
    mild = guard.check_input("0.1", conversation=talk)
    assert (mild.blocked, bool(mild.warnings)) == (blocked, on_error == "warn")
    assert mild.failures == [f"drift: failed: ObserverError: {told}"]
    # What the other principles say for sure needs no more.
    grave = guard.check_input("0.9", conversation=talk)
    assert (grave.blocked, grave.failures) == (True, [])
    assert grave.reasons[0].endswith(f"at turn 2; {told}")


def test_what_was_answered_is_heard_before_the_next_turn(monkeypatch):
    told = []

    class Listens(ScriptedObserver):
        def observe(self, state, turn, wanted):
            told.append((turn.number, turn.response, bool(wanted)))
            return super().observe(state, turn, wanted)

    monkeypatch.setitem(OBSERVERS._parts, "listens", lambda argument: Listens("0.1"))
    guard = GuardrailPipeline({"guardrails": [{"drift": {"observer": "listens", "session": None}}]})
    talk, _ = talk_through(guard, 2)
    assert told == [(1, None, True), (1, "fine", False), (2, None, True)]
    guard.check_input("third", conversation=talk)
    assert told[3:] == [(2, "fine", False), (3, None, True)]


def test_a_reply_that_was_blocked_is_not_heard(monkeypatch):
    told = []

    class Listens(ScriptedObserver):
        def observe(self, state, turn, wanted):
            told.append((turn.number, turn.response))
            return super().observe(state, turn, wanted)

    monkeypatch.setitem(OBSERVERS._parts, "hears", lambda argument: Listens("0.1"))
    words = {"keywords": {"keywords": ["secret"], "on": "output"}}
    guard = GuardrailPipeline({"guardrails": [words, {"drift": {"observer": "hears", "session": None}}]})
    talk = Conversation.human_ai("u", "m")
    guard.check_input("one", conversation=talk)
    assert guard.check_output("a secret", conversation=talk).blocked
    guard.check_input("two", conversation=talk)
    assert told == [(1, None), (2, None)]


def test_of_a_long_conversation_that_comes_in_late_only_the_latest_turns_are_scored(monkeypatch):
    told = []

    class Listens(ScriptedObserver):
        @property
        def info(self):
            return replace(super().info, workers=Workers.PROCESSES)

        def observe(self, state, turn, wanted):
            told.append(bool(wanted))
            return super().observe(state, turn, wanted)

    monkeypatch.setitem(OBSERVERS._parts, "counts", lambda argument: Listens("0.1"))
    guard = GuardrailPipeline({"guardrails": [{"drift": {"observer": "counts", "session": None}}]})
    talk = Conversation.from_turns([(f"turn {number}", "fine") for number in range(300)])
    guard.check_input("and now", conversation=talk)
    assert told == [False] * 190 + [True] * 11


def test_an_earlier_turn_that_can_not_be_scored_is_a_gap(monkeypatch):
    monkeypatch.setitem(OBSERVERS._parts, "fails", FailsAtOnce)
    guard = GuardrailPipeline({"guardrails": [{"drift": {"observer": "fails"}}]})
    talk = Conversation.from_turns([("one", "fine"), ("two", "fine")])
    result = guard.check_input("three", conversation=talk)
    assert (result.failures, result.details["drift"].data["scores"].keys()) == (
        [],
        {one.name for one in builtin_principles()},
    )


def test_an_empty_prompt_has_nothing_to_judge():
    result = GuardrailPipeline({"guardrails": ["drift"]}).check_input("  ")
    assert (result.blocked, result.details["drift"].data["scores"]) == (False, {})


def test_what_was_parked_is_gone_on_with_and_what_is_no_such_thing_is_an_error():
    drift = build_guardrail("drift", observer="scripted:0.1,0.2", session=None)
    talk, _ = talk_through(GuardrailPipeline({"guardrails": [drift]}), 2)
    line, newline, rest = drift.park(talk).partition(b"\n")
    version, fingerprint, heads = json.loads(line)
    again = build_guardrail("drift", observer="scripted:0.1,0.2", session=None)
    again.resume(talk, line + newline + rest)
    assert again.park(talk) == line + newline + rest
    for broken in (
        3,
        [3],
        [[]],
        [{}],
        [heads[0][:3]],
        [["nobody", *heads[0][1:]]],
        [["initiator", 9, *heads[0][2:]]],
    ):
        with pytest.raises(StateError, match="state of guardrail drift is broken"):
            again.resume(talk, json.dumps([version, fingerprint, broken]).encode() + newline + rest)
    with pytest.raises(StateError, match="version 2"):
        again.resume(talk, json.dumps([2, fingerprint, heads]).encode() + newline + rest)
