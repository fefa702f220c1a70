"""All spellings of a name are one session and one limit; names of two people stay apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Conversation, GuardrailPipeline
from turnwise.errors import GuardError
from turnwise.guard import AuditQuestion, MemoryStateStore, read_audit
from turnwise.guard.names import canonical_name
from turnwise.sessions import EngagementMode

SPELLINGS = (
    "Victim ",
    "VICTIM",
    "\uff36\uff49ctim",  # full width
    "vic\u200btim",  # zero width
    "v\u00adictim\ufeff",  # soft hyphen, byte order mark
    "v\u0456\u0441tim",  # Cyrillic
    "VI\u0421\u0422IM",  # Cyrillic capitals
    "v\u03b9ctim",  # Greek
    "\u1d20\u026a\u1d04tim",  # small capitals
    "\U0001d4cbictim\ufe0f",  # styled, with a variation selector
)
CONFIG = {
    "session_by": "initiator",
    "rate_limits": {"per_key": {"minute": 1}},
    "guardrails": [{"drift": {"observer": "scripted:0.95"}}],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_spelling_is_the_same_name(spelling):
    assert canonical_name(spelling) == "victim"


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("\u0430dmin", "admin"),
        ("\u0418\u0432a\u043d", "\u0418\u0432\u0430\u043d"),  # a Latin a in a Cyrillic name
        ("A\u030asa", "\u00c5sa"),
        ("Ann   Lee", "ann\u00a0lee"),
        ("Ann\tLee", "Ann Lee"),
        ("user\u20101", "user-1"),
        ("user\u0661", "user1"),
        ("STRAUSS", "Strau\u00df"),
        ("\u0130brahim", "ibrahim"),
        ("user\u0417", "user3"),
    ],
)
def test_what_looks_the_same_is_the_same(one, same):
    assert canonical_name(one) == canonical_name(same)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\u0418\u0432\u0430\u043d", "Ivan"),
        ("\u0421\u0430\u0440\u0430", "Capa"),  # a Cyrillic name of letters that all look Latin
        ("\u00c5sa", "Asa"),
        ("Bj\u00f8rn", "Bjorn"),
        ("\u0413\u04af\u043b", "\u0413\u0443\u043b"),  # two letters of one script
        ("\u0915\u093f", "\u0915\u0940"),  # vowels of Devanagari
        ("ann lee", "annlee"),
    ],
)
def test_two_people_are_not_one(one, other):
    assert canonical_name(one) != canonical_name(other)
    assert canonical_name("\u0418\u0432\u0430\u043d") == "\u0438\u0432\u0430\u043d"


@given(st.text(st.characters(exclude_categories=()), max_size=12))
def test_the_canonical_form_is_canonical(name):
    once = canonical_name(name)
    assert canonical_name(once) == once == once.strip()


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_a_stance_survives_another_spelling_and_is_forgotten_by_any(store):
    pipeline = GuardrailPipeline({**CONFIG, "rate_limits": {}}, state_store=store())
    for count, name in enumerate(SPELLINGS, start=1):
        chat = Conversation.human_ai(name, "model")
        stance = pipeline.check_input("Hello", conversation=chat).stance
        assert stance.interactions == count
        assert chat.initiator == name  # as it was given
    assert stance.mode is not EngagementMode.NORMAL
    assert pipeline.check_input("Hello", session_id="V\u0406CTIM").stance.interactions == len(SPELLINGS) + 1
    assert pipeline.session(" victim").trust == pipeline.session("\uff36ictim").trust < 0.5
    assert pipeline.forget("VIC\u200bTIM").sessions == 1
    assert pipeline.session("victim").stance is None


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_a_limit_counts_all_spellings_of_a_key(store):
    pipeline = GuardrailPipeline(CONFIG, state_store=store())
    assert not pipeline.check_input("Hello", key="victim").rate_limited
    assert all(pipeline.check_input("Hello", key=spelling).rate_limited for spelling in SPELLINGS)
    assert not pipeline.check_input("Hello", key="v\u00edctim").rate_limited
    assert pipeline.forget(SPELLINGS[0]).limits
    assert not pipeline.check_input("Hello", key="victim").rate_limited


@pytest.mark.parametrize("name", ["", " ", "\u200b", "\u2060\ufeff", "\u3164"])
def test_a_name_that_shows_nothing_is_refused_and_no_person(name):
    pipeline, chat = GuardrailPipeline(CONFIG), Conversation.human_ai("ann", "model")
    with pytest.raises(GuardError, match="session_id is"):
        pipeline.check_input("Hello", conversation=chat, session_id=name)
    with pytest.raises(GuardError, match="key is"):
        pipeline.check_input("Hello", conversation=chat, key=name)
    assert chat.get_turn_count() == 0
    for _ in range(2):  # conversations of nobody are sessions of their own
        unnamed = Conversation(participants={"initiator": name or "unknown", "initiator_type": "human"})
        assert pipeline.check_input("Hello", conversation=unnamed).stance.interactions == 1


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_the_id_of_a_conversation_counts_as_it_is(store):
    pipeline = GuardrailPipeline({"guardrails": CONFIG["guardrails"]}, state_store=store())
    for name in ("Chat-A", "chat-a"):
        chat = Conversation(conversation_id=name)
        assert pipeline.check_input("Hello", conversation=chat).stance.interactions == 1
    assert pipeline.session("Chat-A").stance.interactions == 1
    pipeline.forget_conversation("Chat-A")
    assert pipeline.session("chat-a").stance.interactions == 1


def test_the_responder_of_a_person_is_a_person_whatever_the_spelling():
    pipeline = GuardrailPipeline({**CONFIG, "rate_limits": {}})
    for turn, (ann, ben) in enumerate((("Ann", "Ben"), (" ann", "BEN"), ("\uff21nn", "b\u0435n")), start=1):
        chat = Conversation.human_to_human(ann, ben)
        pipeline.check_input("Hello", conversation=chat)
        assert pipeline.check_output("Hello", conversation=chat).stance.interactions == turn


def test_a_list_of_messages_is_recognised_whatever_the_spelling_of_its_session():
    pipeline = GuardrailPipeline({"guardrails": ["pii"]}, state_store=MemoryStateStore())
    messages = [{"role": "user", "content": "Hello"}]
    first = pipeline.check_messages(messages, session_id="victim")
    again = pipeline.check_messages(messages, session_id=SPELLINGS[0])
    assert again.recorded and again.conversation_id == first.conversation_id


def test_the_audit_is_asked_for_a_person_in_any_spelling(tmp_path):
    path = tmp_path / "audit.jsonl"
    with GuardrailPipeline({**CONFIG, "rate_limits": {}}, audit=path) as pipeline:
        for name in ("Victim ", "vi\u0441tim", "ben"):
            pipeline.check_input("Hello", conversation=Conversation.human_ai(name, "model"))
    for question in (AuditQuestion(person="VICTIM"), AuditQuestion(session_id="VICTIM")):
        events = read_audit(path, question).events
        assert [event["participants"]["initiator"] for event in events] == ["Victim ", "vi\u0441tim"]
