"""Both sides: who is judged, whose trajectory and whose session a text belongs to."""

import pytest

from turnwise import Conversation, GuardrailPipeline, analyze_conversation_forensics
from turnwise.errors import TurnwiseError
from turnwise.guard import GUARDRAILS
from turnwise.observers import ScriptedObserver
from turnwise.scoring import Score

LONG = "x" * 300


class Words(ScriptedObserver):
    """Gives F 0.9 to a text that says "push", 0.1 to others; keeps what it was asked for and what it heard."""

    def __init__(self):
        super().__init__(self.score)
        self.asked, self.heard = [], []

    def score(self, conversation_id, turn, request):
        """Give the score of the side that is asked for."""
        text = turn.text(request.side)
        self.asked.append((text, str(request.side)))
        F = 0.9 if "push" in text else 0.1
        return Score(T=1 - F, I=0.1, F=F)

    def observe(self, state, turn, wanted):
        self.heard.append((turn.number, turn.prompt, turn.response))
        return super().observe(state, turn, wanted)


def guarded(observer=None, session_by="conversation", **settings):
    """A pipeline with drift alone."""
    settings.setdefault("block_at", 0.5)
    drift = GUARDRAILS.get("drift")(observer=observer or Words(), principles=("reciprocity",), **settings)
    return GuardrailPipeline({"session_by": session_by, "guardrails": [drift]})


def exchange(guard, talk, prompt, reply):
    """Say a prompt and a reply, and return both results."""
    said = guard.check_input(prompt, conversation=talk)
    return said, guard.check_output(reply, conversation=talk, turn_number=said.turn_number)


KINDS = [
    (Conversation.bot_to_bot("a", "b"), True),
    (Conversation.agent_to_agent("a", "b"), True),
    (Conversation.human_to_human("a", "b"), True),
    (Conversation("a", "b", initiator_type="agent", responder_type="bot"), True),
    (Conversation.human_ai("a", "b"), False),
    (Conversation("a", "b", initiator_type="human", responder_type="bot"), False),
    (Conversation("a", "b", initiator_type="agent", responder_type="ai_model"), False),
    (Conversation("a", "b"), False),
]


@pytest.mark.parametrize(("talk", "both"), KINDS)
def test_the_kind_of_a_conversation_says_who_is_judged(talk, both):
    _, reply = exchange(guarded(), talk, "hello", "now push the button")
    assert reply.blocked is both


@pytest.mark.parametrize(
    ("judge", "blocked"),
    [
        ("initiator", (True, False)),
        ("responder", (False, True)),
        ("both", (True, True)),
        ("replies", (False, True)),
        ("auto", (True, False)),
    ],
)
def test_who_is_judged_can_be_set(judge, blocked):
    said = exchange(guarded(judge=judge), Conversation.human_ai("ann", "m"), "push", "push")
    assert tuple(result.blocked for result in said) == blocked


def test_a_result_says_whose_text_and_whose_trajectory_it_was():
    talk = Conversation.bot_to_bot("seller", "buyer")
    asked, reply = exchange(guarded(), talk, "push", "push")
    assert asked.details["drift"].data["trajectory"] == "initiator"
    assert asked.details["drift"].data["speaker"] == "seller"
    assert reply.details["drift"].data["trajectory"] == "responder"
    assert reply.details["drift"].data["speaker"] == "buyer"
    assert reply.reasons == ["drift: the responder's texts: reciprocity F 0.900 ≥ 0.500 at turn 1"]
    kept = talk.turn(1).metadata["guardrail_results"]["output"]["details"]["drift"]["data"]
    assert (kept["trajectory"], kept["turn"]) == ("responder", 1)
    assert [one["guardrail"] for one in analyze_conversation_forensics(talk)["drift"]] == [
        "drift",
        "drift (responder)",
    ]


def test_each_speaker_adds_up_by_itself():
    guard = guarded("scripted:" + ",".join(["0.4"] * 20), detector="cusum:drift=0.2,limit=0.5", session=None)
    talk = Conversation.bot_to_bot("a", "b")
    results = [exchange(guard, talk, "one", "two") for _ in range(3)]
    assert [[one.blocked for one in pair] for pair in results] == [[False] * 2, [False] * 2, [True] * 2]


def test_the_responders_texts_are_read_as_prompts_and_the_initiators_as_replies():
    observer = Words()
    guard = guarded(observer, judge="responder")
    talk = Conversation.bot_to_bot("a", "b")
    exchange(guard, talk, "good day", "hello")
    exchange(guard, talk, "what is new?", "not much")
    assert observer.heard == [
        (1, "", "good day"),
        (2, "hello", None),
        (3, "", "what is new?"),
        (4, "not much", None),
    ]
    assert observer.asked == [("hello", "prompt"), ("not much", "prompt")]


def test_replies_are_judged_as_replies_after_their_prompts():
    observer = Words()
    guard = guarded(observer, judge="replies")
    talk = Conversation.human_ai("ann", "m")
    exchange(guard, talk, "push", "certainly not")
    _, reply = exchange(guard, talk, "hello", "so push it")
    assert observer.asked == [("certainly not", "response"), ("so push it", "response")]
    assert observer.heard == [(1, "push", "certainly not"), (2, "hello", "so push it")]
    assert reply.reasons == ["drift: the replies: reciprocity F 0.900 ≥ 0.500 at turn 2"]


def test_what_nobody_asks_for_is_not_read():
    observer = Words()
    guard = guarded(observer)
    talk = Conversation.human_ai("ann", "m")
    exchange(guard, talk, "hello", "push")
    assert observer.asked == [("hello", "prompt")]
    results = exchange(guarded(judge="replies"), Conversation.human_ai("ann", "m"), "hello", "fine")
    assert ["drift" in result.details for result in results] == [False, True]


@pytest.mark.shows("EDGE-2")
def test_a_turn_costs_the_same_however_long_the_conversation_is():
    observer = Words()
    guard = guarded(observer)
    talk = Conversation.bot_to_bot("a", "b")
    counts = []
    for number in range(40):
        before = len(observer.heard)
        exchange(guard, talk, f"question {number}", f"answer {number}")
        counts.append(len(observer.heard) - before)
    # The prompt; the reply of the turn before; and of the responder what it heard, and its text.
    assert set(counts[1:]) == {4}


def test_a_conversation_that_is_picked_up_brings_the_responders_scores():
    guard = guarded("scripted:" + ",".join(["0.4"] * 20), detector="cusum:drift=0.2,limit=0.5", session=None)
    talk = Conversation.bot_to_bot("a", "b")
    for _ in range(2):
        exchange(guard, talk, "one", "two")
    back = Conversation.from_dict(talk.to_dict())
    other = guarded("scripted:" + ",".join(["0.4"] * 20), detector="cusum:drift=0.2,limit=0.5", session=None)
    assert [one.blocked for one in exchange(other, back, "one", "two")] == [True, True]


def test_replies_may_come_in_any_order():
    guard = guarded()
    talk = Conversation.bot_to_bot("a", "b")
    for number in range(3):
        guard.check_input(f"question {number}", conversation=talk)
    blocked = {
        turn: guard.check_output(text, conversation=talk, turn_number=turn).blocked
        for turn, text in ((3, "fine"), (1, "push"), (2, "fine"))
    }
    assert blocked == {3: False, 1: True, 2: False}
    assert guard.check_output("push", conversation=talk).turn_number == 4


# Sessions


def test_each_speaker_has_a_session_of_their_own():
    guard = guarded()
    talk = Conversation.bot_to_bot("a", "b")
    for _ in range(6):
        asked, reply = exchange(guard, talk, "hello", "push")
    assert (asked.blocked, asked.stance.mode, asked.stance.alarms) == (False, "normal", 0)
    assert (reply.blocked, reply.stance.mode) == (True, "terminated")
    # What ended is the responder's session alone.
    asked, reply = exchange(guard, talk, "hello", "sorry")
    assert (asked.blocked, reply.blocked) == (False, True)
    assert reply.reasons[0].startswith("drift: the responder's texts: session terminated")
    assert guard.session(f"{talk.conversation_id}/responder").reset()
    assert [one.blocked for one in exchange(guard, talk, "hello", "sorry")] == [False, False]


def test_a_named_responder_is_known_again_where_sessions_are_by_person():
    guard = guarded(session_by="initiator")
    for _ in range(6):
        exchange(guard, Conversation.bot_to_bot("a", "b"), "hello", "push")
    asked, reply = exchange(guard, Conversation.bot_to_bot("c", "b"), "hello", "fine")
    assert (asked.blocked, reply.blocked) == (False, True)
    asked, reply = exchange(guard, Conversation.bot_to_bot("b", "c"), "hello", "fine")
    assert (asked.blocked, reply.blocked) == (True, False)


@pytest.mark.parametrize("names", [(None, None), (None, "b"), ("unknown", "unknown"), ("a", None)])
def test_speakers_without_a_name_share_nothing(names):
    guard = guarded(session_by="initiator")
    first, second = names
    kind = {"initiator_type": "bot", "responder_type": "bot"}
    for _ in range(8):
        exchange(guard, Conversation(first, second, **kind), "hello", "push")
    stranger = Conversation(first, None, **kind)
    asked, reply = exchange(guard, stranger, "Hello", "fine")
    assert [(one.blocked, one.stance.alarms) for one in (asked, reply)] == [(False, 0), (False, 0)]


def test_two_strangers_without_a_name_don_t_share_a_session():
    guard = guarded(session_by="initiator")
    attacker, stranger = Conversation(), Conversation()
    for _ in range(8):
        last = guard.check_input("push", conversation=attacker)
    assert last.stance.mode == "terminated"
    hello = guard.check_input("Hello", conversation=stranger)
    assert (hello.blocked, hello.stance.interactions) == (False, 1)
    listed = guard.check_messages([{"role": "user", "content": "Hello"}])
    assert (listed.blocked, listed.stance.interactions) == (False, 1)


def test_a_name_may_be_long_and_both_may_have_the_same():
    guard = guarded(session_by="initiator")
    for _ in range(6):
        exchange(guard, Conversation.bot_to_bot(LONG, LONG), "hello", "push")
    asked, reply = exchange(guard, Conversation.bot_to_bot(LONG, LONG), "hello", "fine")
    assert (asked.blocked, reply.blocked) == (False, True)


def test_a_judge_that_can_not_be_is_an_error_at_start():
    with pytest.raises(TurnwiseError, match="'auto', 'initiator', 'responder', 'both' or 'replies'"):
        GuardrailPipeline({"guardrails": [{"drift": {"observer": "scripted:0.1", "judge": "everyone"}}]})
