"""The same conversations through every door of the guard get the same verdicts at the same turns."""

import pytest
from benchmarks.doors import CONFIG, compare, doors, draw, inside, proxies, python_door, through

pytestmark = pytest.mark.integration

CONVERSATIONS, SEED = 20, 1


@pytest.fixture(scope="module")
def own():
    """Conversations, and the verdicts of the library alone."""
    talks = draw(CONVERSATIONS, SEED)
    verdicts = through(python_door(), talks)
    told = [verdict for talk in verdicts for verdict in talk]
    assert {(one.side, one.blocked) for one in told} == {
        (s, b) for s in ("input", "output") for b in (True, False)
    }
    assert any("[EMAIL]" in one.text for one in told) and any("drift" in one.reasons for one in told), CONFIG
    return talks, verdicts


def test_http_litellms_endpoint_and_the_openai_client_give_the_verdicts_of_the_library(own):
    talks, verdicts = own
    with doors() as opened:
        assert {
            name: compare(name, verdicts, through(door, talks)) for name, door in opened.items()
        } == dict.fromkeys(opened, 0)


def test_the_guardrail_in_litellms_process_gives_them_too(own):
    assert compare("hooks", own[1], inside(CONVERSATIONS, SEED)) == 0


def test_a_real_proxy_of_litellm_gives_them_too(own):
    talks, verdicts = (part[:4] for part in own)
    with proxies() as opened:
        for name, door in opened.items():
            assert compare(name, verdicts, through(door, talks)) == 0
