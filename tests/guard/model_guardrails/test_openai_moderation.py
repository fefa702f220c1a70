"""The moderation endpoint, over real HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from moderation_server import ModerationServer, result_of

from turnwise.conversation import Side
from turnwise.errors import GuardError, TurnwiseError, UnknownNameError, UsageError
from turnwise.guard import GUARDRAILS, Guardrail, GuardrailPipeline

KEY = "sk-moderation-12345678"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModerationServer]:
    """Return a server, with a key for it in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ModerationServer() as server:
        yield server


def guardrail(server: ModerationServer, **settings: object) -> Guardrail:
    return GUARDRAILS.get("openai_moderation")(**{"base_url": server.url, "max_retries": 0, **settings})


def test_what_the_endpoint_flags_is_found(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    finding = guardrail(server).check(check("a gory tale"))
    assert finding.found
    assert finding.reason == "flagged for violence, violence/graphic"
    assert finding.confidence == 0.9
    assert finding.data == {"scores": {"violence": 0.9, "violence/graphic": 0.6}}
    assert server.requests == [{"input": "a gory tale", "model": "omni-moderation-latest"}]
    assert server.keys == [f"Bearer {KEY}"]
    clean = guardrail(server).check(check("a quiet tale", Side.RESPONSE))
    assert (clean.found, clean.confidence) == (False, 0.01)


def test_a_threshold_takes_the_place_of_a_flag(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    lax = guardrail(server, thresholds={"violence": 0.95, "violence/graphic": 0.7})
    assert not lax.check(check("a gory tale")).found
    assert lax.check(check("a rude tale")).reason == "flagged for harassment"
    strict = guardrail(server, thresholds={"violence/graphic": 0.01}, flagged=False)
    assert strict.check(check("a quiet tale")).reason == "flagged for violence/graphic"
    assert not guardrail(server, thresholds={"hate": 0.5}, flagged=False).check(check("a rude tale")).found


def test_another_model_may_be_named(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    guardrail(server, model="text-moderation-2030").check(check("a tale"))
    assert server.requests[0]["model"] == "text-moderation-2030"


def test_a_blank_text_is_not_sent(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    assert not guardrail(server).check(check("  ")).found
    assert server.requests == []


def test_a_lone_surrogate_can_be_sent(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    assert guardrail(server).check(check("a rude \ud800 tale")).found


def _answer(**changes: object) -> bytes:
    return json.dumps({"id": "m", "model": "m", "results": [{**result_of("rude"), **changes}]}).encode()


@pytest.mark.parametrize(
    "planned",
    [
        500,
        401,
        429,
        b"{}",
        b"not json",
        b'{"results": []}',
        b'{"results": [{"flagged": true}]}',
        _answer(category_scores=None),
        _answer(category_scores={"harassment": 7.0}),
        _answer(category_scores={"harassment": "much"}),
        _answer(category_scores={"violence": 0.5}),
    ],
)
def test_no_result_is_a_failure_that_shows_no_key(server: ModerationServer, check, planned) -> None:  # type: ignore[no-untyped-def]
    llm = guardrail(server)
    server.planned.append(planned)
    with pytest.raises(TurnwiseError, match=r"^openai_moderation: ") as caught:
        llm.check(check("a rude tale"))
    error: BaseException | None = caught.value
    assert KEY not in str(error)
    assert error is not None
    assert error.__cause__ is None
    assert llm.check(check("a rude tale")).found


def test_a_server_that_hangs_ends_by_its_time_limit(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    server.planned.append("hang")
    with pytest.raises(TurnwiseError, match=r"^openai_moderation: APITimeoutError"):
        guardrail(server, request_seconds=0.2).check(check("a tale"))


def test_a_fault_that_may_pass_is_tried_again(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    server.planned.append(500)
    assert guardrail(server, max_retries=1).check(check("a rude tale")).found


def test_threads_get_the_results_of_their_own(server: ModerationServer, check) -> None:  # type: ignore[no-untyped-def]
    moderation = guardrail(server)
    checks = [check("a rude tale" if number % 2 else "a tale") for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert [one.found for one in pool.map(moderation.check, checks)] == [bool(n % 2) for n in range(24)]


def test_in_a_pipeline_it_blocks_and_fails_closed(server: ModerationServer) -> None:
    settings = {"base_url": server.url, "max_retries": 0, "thresholds": {"violence": 0.8}}
    pipeline = GuardrailPipeline({"guardrails": [{"openai_moderation": settings}]})
    assert pipeline.check_input("a gory tale").blocked
    assert not pipeline.check_output("a tale").blocked
    server.planned.append(500)
    result = pipeline.check_input("a tale")
    assert result.blocked
    assert result.details["openai_moderation"].status == "failed"


def test_what_can_not_work_is_refused_when_it_is_built(server: ModerationServer, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownNameError, match="did you mean 'violence/graphic'"):
        guardrail(server, thresholds={"violence/grafic": 0.5})
    for settings, message in (
        ({"thresholds": {"hate": 1.5}}, "the threshold of hate"),
        ({"flagged": False}, "give thresholds, or set flagged"),
        ({"request_seconds": 0}, "request_seconds"),
    ):
        with pytest.raises(GuardError, match=message):
            guardrail(server, **settings)
    with pytest.raises(UsageError, match="base_url must look like"):
        GUARDRAILS.get("openai_moderation")(base_url="nowhere")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(GuardError, match="OPENAI_API_KEY"):
        guardrail(server)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(GuardError, match=r'pip install "turnwise\[llm\]"'):
        guardrail(server)
