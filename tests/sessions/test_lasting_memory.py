"""Evidence that lasts: F that adds up in a session, incidents of a person over sessions, and what fades."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import SessionError, StateError
from turnwise.scoring import Score, TurnScores
from turnwise.sessions import (
    PERSON,
    SESSION,
    EngagementMode,
    EvidenceSettings,
    MemoryStateStore,
    SessionMemory,
    Sessions,
    SessionSettings,
    SessionState,
)

BEGIN = datetime(2025, 3, 1, 12, tzinfo=UTC)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


class Life:
    """Sessions whose time goes on by hand."""

    def __init__(self, settings=None):
        self.now = BEGIN
        self.store = MemoryStateStore()
        self.sessions = Sessions(self.store, lambda: self.now, SessionMemory(settings or SessionSettings()))

    def take(self, F, session="c1", person="ann", **more):
        self.now += MINUTE
        told = TurnScores(1, {"reciprocity": Score(1 - F, 0.3, F)}, 80)
        return self.sessions.take(session, told, conversation_id=session, person=person, **more)

    def correct(self, key, F, session="c1", person="ann"):
        told = TurnScores(1, {"reciprocity": Score(1 - F, 0.3, F)}, 80)
        return self.sessions.correct(session, key, told, {}, person=person)


def modes(life, values, **more):
    return [life.take(F, **more).mode for F in values]


def test_moderate_f_adds_up_until_the_session_ends():
    found = modes(Life(), [0.55] * 12, person="")
    first = found.index(EngagementMode.GUARDED)
    assert (first, found.index(EngagementMode.TERMINATED)) == (4, 11)
    assert found[11] is EngagementMode.TERMINATED
    assert EngagementMode.TERMINATED not in modes(Life(SessionSettings(evidence=None)), [0.55] * 200)


def test_spikes_every_fourth_turn_end_a_session():
    found = modes(Life(), [0.9, 0.05, 0.05, 0.05] * 8, person="")
    assert EngagementMode.TERMINATED in found[:20]


@pytest.mark.parametrize("every", [10, 25])
def test_the_fourth_of_rare_spikes_ends_a_session(every):
    found = modes(Life(), ([0.9] + [0.05] * (every - 1)) * 8, person="")
    assert found.index(EngagementMode.TERMINATED) == 3 * every


def test_ordinary_turns_take_the_sum_down_again():
    life = Life()
    modes(life, [0.55] * 6)
    assert life.sessions.stance("c1").mode is EngagementMode.GUARDED
    assert modes(life, [0.0] * 12)[-1] is not EngagementMode.GUARDED


def test_the_rationale_names_the_evidence():
    life = Life()
    for _ in range(6):
        stance = life.take(0.55)
    assert "escalated: F 0.55 for 6 turns; 1 incident in 1 day" in stance.rationale
    for day in range(2):
        life.now += 4 * DAY
        stance = life.take(0.9, session=f"d{day}")
    assert "escalated: 3 incidents in 8 days" in stance.rationale
    assert stance.strikes == 2  # the first has faded
    shown = SessionMemory(point=0.5)
    state = shown.start("a", BEGIN)
    for _ in range(6):
        state, stance = shown.update(state, TurnScores(1, {"r": Score(0.5, 0.3, 0.546)}, 80), BEGIN)
    assert "F 0.42 for 6 turns" in stance.rationale


def test_a_conversation_is_no_fresh_start_for_a_person():
    life = Life()
    met = [life.take(0.9, session=f"c{number}") for number in range(6)]
    assert [stance.mode for stance in met[:3]] == [EngagementMode.GUARDED] * 3
    assert met[3].mode is EngagementMode.TERMINATED
    assert life.take(0.0, session="next").mode is EngagementMode.TERMINATED
    assert "held until they fade" in life.take(0.0, session="next").rationale
    assert life.take(0.0, session="other", person="ben").strikes == 0
    assert life.take(0.0, session="nobody", person="").strikes == 0


def test_turns_of_one_incident_count_once():
    life = Life()
    modes(life, [0.9, 0.7, 0.9, 0.1, 0.9])
    assert (life.sessions.person("ann").weight, life.sessions.person("ann").incidents) == (1.0, 1)
    modes(life, [0.1, 0.1, 0.1, 0.9])
    assert life.sessions.person("ann").incidents == 2


def test_near_misses_and_blocks_of_others_weigh_less():
    life = Life()
    life.take(0.6)
    assert life.sessions.person("ann").weight == 0.25
    life.sessions.note("c2", 0.5, person="ann")
    assert life.sessions.person("ann").weight == pytest.approx(0.75, abs=1e-3)
    assert life.sessions.state("c2").interactions == 0


def test_what_a_person_did_fades_by_its_half_life():
    life = Life()
    for number in range(6):
        life.take(0.9, session=f"c{number}")
    life.now += 60 * DAY
    stance = life.take(0.0, session="later")
    assert (stance.strikes, stance.mode) == (0, EngagementMode.CAUTIOUS)
    slow = Life(SessionSettings(evidence=EvidenceSettings(half_life=None)))
    for number in range(6):
        slow.take(0.9, session=f"c{number}")
    slow.now += 60 * DAY
    assert slow.take(0.0, session="later").strikes == 6


def test_whoever_keeps_trying_can_still_come_back():
    life = Life()
    for number in range(300):
        life.take(0.9, session=f"c{number}")
    life.now += 28 * DAY
    assert life.take(0.0, session="later").mode is not EngagementMode.TERMINATED


@given(st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.55, 0.9]), min_size=2, max_size=14), st.data())
def test_a_correction_leaves_what_the_right_scores_would_have_left(values, data):
    """Two conversations of one person take turns; one turn of one of them is corrected late."""
    at = data.draw(st.integers(0, len(values) - 1))
    late, right = Life(), Life()
    for number, F in enumerate(values):
        session = f"c{number % 2}"
        late.take(0.1 if number == at else F, session=session, key="k" if number == at else "")
        right.take(F, session=session)
    late.correct("k", values[at], session=f"c{at % 2}")
    found, wanted = late.sessions.person("ann"), right.sessions.person("ann")
    if len({number % 2 for number in range(at, len(values))}) == 1:
        # No other conversation went on meanwhile by what was known then.
        assert found is None or wanted is None or found.weight == pytest.approx(wanted.weight, abs=2e-3)
        assert late.sessions.state(f"c{at % 2}").evidence[:5] == right.sessions.state(f"c{at % 2}").evidence[:5]
    one = Life()
    for number, F in enumerate(values):
        one.take(0.1 if number == at else F, key="k" if number == at else "")
    one.correct("k", values[at])
    same = Life()
    for F in values:
        same.take(F)
    assert one.sessions.stance("c1").to_dict() == same.sessions.stance("c1").to_dict()
    weights = [
        0.0 if one_ is None else one_.weight for one_ in (one.sessions.person("ann"), same.sessions.person("ann"))
    ]
    assert weights[0] == pytest.approx(weights[1], abs=2e-3)


def test_a_wrong_alarm_that_is_corrected_leaves_nothing_against_the_person():
    life = Life()
    life.take(0.9, key="k")
    assert life.sessions.person("ann").weight == 1.0
    life.correct("k", 0.0)
    assert life.sessions.person("ann").weight == 0.0
    assert life.take(0.9, session="c2").strikes == 1


def test_release_and_forget():
    life = Life()
    for number in range(6):
        life.take(0.9, session=f"c{number}")
    life.sessions.release("ann")
    life.sessions.release("c5")
    assert life.take(0.0, session="c5").strikes == 0
    life.take(0.9, session="x")
    assert life.sessions.forget("ann")
    assert life.sessions.person("ann") is None


def test_states_are_small_and_checked_when_read():
    life = Life()
    for number in range(5):
        for F in (0.9, 0.55, 0.55, 0.3):
            life.take(F, session=f"c{number}")
    state, record = life.sessions.state("c4"), life.sessions.person("ann")
    assert len(json.dumps(state.to_dict(), separators=(",", ":"))) <= 700
    assert len(PERSON.pack(record)) <= 130
    assert SessionState.from_dict(state.to_dict()) == state
    assert PERSON.unpack(PERSON.pack(record), "k") == record
    first = SESSION.pack(state).replace(b"session/2", b"session/1", 1)
    assert SESSION.unpack(first, "k") == state
    for wrong in ([], [1] * 8, [-1.0, *state.evidence.to_list()[1:]], [*state.evidence.to_list()[:-1], "x"]):
        with pytest.raises(SessionError, match=r"evidence|elsewhere|days"):
            SessionState.from_dict({**state.to_dict(), "evidence": wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        b"[]",
        b'["a","2025-01-01T00:00:00","2025-01-01T00:00:00",1,1]',
        b'["a","x","y",1,1]',
        b'["a","2025-01-01T00:00:00+00:00","2025-01-01T00:00:00+00:00",-1,1]',
        b'["a","2025-01-01T00:00:00+00:00","2025-01-01T00:00:00+00:00",1,1.5]',
    ],
)
def test_a_broken_record_is_named(wrong):
    import zlib

    with pytest.raises(StateError, match="person 'k' is broken"):
        PERSON.unpack(b"person/1\n" + zlib.compress(wrong), "k")


@pytest.mark.parametrize(
    "wrong", [{"drift": 2}, {"limit": 0}, {"limit": 101}, {"near": -1}, {"held": 0}, {"half_life": timedelta(0)}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(SessionError, match=next(iter(wrong))):
        EvidenceSettings(**wrong)
    with pytest.raises(SessionError, match="evidence must be"):
        SessionSettings(evidence=0.5)
