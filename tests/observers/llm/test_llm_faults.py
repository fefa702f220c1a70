"""A server that fails in every way: what may pass is tried again, what won't stops the run, nothing is made up."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from chat_server import FATAL_FAULTS, LOST_FAULTS, REPLY_FAULTS
from growth import grows_linearly

from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError
from turnwise.observers import (
    ChatError,
    Context,
    FaultKind,
    LlmObserver,
    LlmSettings,
    Observation,
    ObservationFailure,
    Request,
    ScriptedClient,
)
from turnwise.observers.llm.faults import retry_after
from turnwise.principles import load_principle
from turnwise.scoring import MemoryJournal
from turnwise.store import Store

PRINCIPLE = load_principle("reciprocity")
NOW = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)


def ask(observer, number):
    state = observer.start("s", Context.parse("turn"))
    return observer.observe(state, Turn(number, f"prompt {number}"), [Request(PRINCIPLE, Side.PROMPT)])[0]


def scripted(script, **settings):
    waits = []
    observer = LlmObserver("ollama/m", LlmSettings(**settings), client=ScriptedClient(script), wait=waits.append)
    return observer, waits


class TestFaultsThatPass:
    @pytest.mark.parametrize("fault", LOST_FAULTS)
    def test_are_tried_again_until_a_reply_comes(self, server, make, score, waits, fault):
        server.plan(fault, fault)
        server.slow = 0.02
        observer = make(timeout=0.15 if fault == "slow_body" else 30.0)
        given = score(observer)
        assert isinstance(given, Observation), given
        assert given.calls[0].attempts == server.calls == 3
        assert len(waits) == 2
        assert given.raw_reply == server.answer(server.requests[-1])

    @pytest.mark.parametrize(
        ("fault", "reason"),
        [
            ("429", "throttled"),
            ("500", "server"),
            ("503", "server"),
            ("502:html", "server"),
            ("gateway_502", "server"),
            ("no_choices", "truncated"),
            ("drop", "connection"),
            ("drop_late", "connection"),
            ("truncate", "truncated"),
            ("bad_body", "truncated"),
            ("slow_body", "timeout"),
            ("slow_head", "timeout"),
            ("nested", "truncated"),
            ("not_gzip", "truncated"),
            ("other_encoding", "truncated"),
        ],
    )
    def test_that_do_not_pass_are_a_failure_after_the_last_retry(self, server, make, score, waits, fault, reason):
        server.plan(*[fault] * 9)
        server.slow = 0.02
        given = score(make(max_retries=3, timeout=0.1 if fault.startswith("slow") else 30.0))
        assert isinstance(given, ObservationFailure)
        assert given.reason == reason, given
        assert given.message.endswith("(after 4 tries)")
        assert server.calls == given.calls[0].attempts == 4
        assert len(waits) == 3
        assert (given.calls[0].reply, given.raw_reply, given.cost_usd) == (None, None, 0.0)

    def test_a_server_that_is_slow_to_answer_at_all_times_out(self, server, make, score):
        server.latency = 0.4
        given = score(make(timeout=0.1, max_retries=0))
        assert (given.reason, given.message) == ("timeout", "no reply within 0.1 seconds")

    def test_a_server_that_sends_its_head_byte_by_byte_is_left_in_time(self, server, make, score):
        server.plan("slow_head")
        server.slow = 0.005
        assert score(make(timeout=0.1, max_retries=0)).reason == "timeout"
        assert server.given["slow_head:whole"] == 0

    def test_a_connection_that_is_used_again_has_a_deadline_of_its_own_each_time(self, server, make):
        observer = make(timeout=0.5, max_retries=0)
        server.slow = 0.02
        server.plan(None, "slow_head", None)
        given = [ask(observer, number) for number in (1, 2, 3)]
        assert [getattr(one, "reason", None) for one in given] == [None, "timeout", None]
        assert server.given["slow_head:whole"] == 0

    @pytest.mark.parametrize("fault", ["slow_body", "slow_head"])
    def test_a_slow_answer_within_the_time_is_waited_for(self, server, make, score, fault):
        server.plan(fault)
        server.slow = 0.0005
        assert isinstance(score(make(timeout=30.0)), Observation)

    @pytest.mark.parametrize("fault", ["huge", "bomb"])
    def test_no_more_of_an_answer_is_read_than_may_be(self, server, make, score, fault):
        server.plan(fault)
        given = score(make(max_retries=0))
        assert given.reason == "truncated"
        assert given.message == "the provider's answer is larger than 4 MB, and no more of it was read"

    def test_heads_without_end_are_not_read_on(self, server, make, score):
        server.plan("endless_head")
        given = score(make(max_retries=0))
        assert given.reason == "truncated"
        assert given.message == (
            "the provider's answer is larger than 8 MB with its headers, and no more of it was read"
        )

    def test_waits_grow_and_are_spread(self, server, make, score, waits):
        server.plan(*["500"] * 9)
        score(make(max_retries=8))
        assert len(waits) == 8
        for retry, wait in enumerate(waits, start=1):
            step = min(0.5 * 2 ** (retry - 1), 60)
            assert step / 2 <= wait <= step

    def test_what_the_provider_asks_for_is_waited(self, server, make, score, waits):
        server.retry_after = 7
        server.plan("429:retry-after")
        assert isinstance(score(make()), Observation)
        assert 7 <= waits[0] <= 7.3

    def test_a_wait_beyond_all_patience_gives_the_call_up(self, server, make, score, waits):
        server.retry_after = 10_000
        server.plan("429:retry-after")
        assert score(make()).reason == "throttled"
        assert waits == []

    def test_no_retries_means_one_try(self, server, make, score):
        server.plan("500")
        assert score(make(max_retries=0)).message == (
            "the provider failed (500: The server had an error. (headers: authorization=Bearer [key]))"
        )


class TestRetryAfter:
    def test_is_read_in_all_forms(self):
        assert retry_after("3", None, NOW) == 3
        assert retry_after("0.5", None, NOW) == 0.5
        assert retry_after("3", "250", NOW) == 0.25
        assert retry_after(format_datetime(NOW + timedelta(seconds=90)), None, NOW) == 90
        assert retry_after(format_datetime(NOW - timedelta(seconds=90)), None, NOW) == 0
        assert retry_after("Thu, 02 Jan 2025 03:05:05 -0000", None, NOW) == 60

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [(" 3 ", 3), ("3.25", 3.25), ("٣", 3), ("9" * 12, 999_999_999_999), ("\x1c1.0\xa0", 1)],
    )
    def test_may_be_any_plain_number(self, text, seconds):
        assert retry_after(text, None, NOW) == seconds

    @pytest.mark.parametrize("unit", ["9", " ", "1.", ", "])
    def test_a_long_header_takes_linear_time(self, unit):
        assert grows_linearly(lambda text: retry_after(text, text, NOW), unit)

    @pytest.mark.parametrize(
        "text",
        [
            *("soon", "", "-3", "nan", "1e3", "9" * 40, None, "1.", ".5", "1.2.3", "²", "9" * 13, "1 2"),
            "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
            "1 Jan 2025 00:00:00 +99999999999999",
        ],
    )
    def test_nonsense_is_no_wait(self, text):
        assert retry_after(text, None, NOW) is None

    @pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.5), (0.9, 0.95)])
    @pytest.mark.parametrize("asked", [None, 0.0])
    def test_the_longest_wait_of_ones_own_is_a_minute(self, jitter, share, asked):
        waits: list[float] = []
        observer = LlmObserver(
            "ollama/m",
            LlmSettings(max_retries=10),
            client=ScriptedClient(lambda request: ChatError(FaultKind.SERVER, "down", asked)),
            wait=waits.append,
            jitter=SimpleNamespace(random=lambda: jitter),
        )
        ask(observer, 1)
        assert waits == pytest.approx([step * share for step in (0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60)])


class TestAProxyOfTheEnvironment:
    def test_is_used_with_its_password(self, server, make, score, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", server.url.replace("://", "://me:secret@"))
        assert isinstance(score(make(base_url="http://model.invalid/v1")), Observation)
        assert server.headers[0]["host"] == "model.invalid"
        assert server.headers[0]["proxy-authorization"] == "Basic bWU6c2VjcmV0"

    @pytest.mark.parametrize("around", ["127.0.0.1", "localhost, 127.0.0.0/8", "*"])
    def test_is_gone_around_where_that_is_said(self, server, make, score, monkeypatch, around):
        monkeypatch.setenv("HTTP_PROXY", "http://nowhere.invalid:3128")
        monkeypatch.setenv("NO_PROXY", around)
        assert isinstance(score(make()), Observation)

    def test_that_is_not_there_is_told(self, make, score, monkeypatch):
        monkeypatch.setenv("ALL_PROXY", "nowhere.invalid:3128")
        monkeypatch.setenv("NO_PROXY", "example.com")
        with pytest.raises(ObserverError, match=r"nothing answers at http://model\.example/v1"):
            score(make(base_url="http://model.example/v1"))


class TestFaultsThatStopTheRun:
    @pytest.mark.parametrize(
        ("fault", "says"),
        [
            ("401", "refuses the key in OPENAI_API_KEY (401: Incorrect API key"),
            ("402", "the account has no credit left (402: Payment required"),
            ("403", "forbids this to the key in OPENAI_API_KEY (403: Country"),
            ("404", "does not know the model (404: The model does not exist"),
            ("quota", "the account has no credit left (429: You exceeded"),
            ("no_model", "does not know the model (400: Model nonesuch"),
            ("no_setting", "the model does not take a setting (400: Unsupported value: 'temperature'"),
            ("html", "is not a chat-completions API (302: it answers with an HTML page): check the base URL"),
            ("gateway_401", "refuses the key in OPENAI_API_KEY (401: No key"),
            ("redirect", "is not a chat-completions API (302): check the base URL"),
        ],
    )
    def test_they_say_what_to_mend_and_no_further_call_is_made(self, server, make, score, fault, says):
        assert {fault} <= {*FATAL_FAULTS, "redirect"}
        server.plan(fault)
        observer = make()
        for _ in range(2):
            with pytest.raises(ObserverError) as raised:
                score(observer)
            assert str(raised.value).startswith("llm:openai/gpt-4.1-mini: ")
            assert says in str(raised.value)
        assert server.calls == 1

    def test_a_key_that_the_server_does_not_know(self, server, make, score):
        server.key = "sk-another"
        with pytest.raises(ObserverError, match="check it"):
            score(make())

    def test_a_server_without_key_that_refuses(self, server, make, score):
        server.key = None
        server.plan("403")
        with pytest.raises(ObserverError, match="forbids this to a request without key"):
            score(make("ollama/qwen3:8b"))

    def test_nobody_at_the_address_is_told_soon(self, make, score, waits):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(ObserverError, match=f"nothing answers at {url} .*: check that the server runs"):
            score(make(base_url=url))
        assert len(waits) == 2

    def test_a_name_that_nobody_has(self, make, score):
        with pytest.raises(ObserverError, match=r"nothing answers at http://nowhere\.invalid/v1"):
            score(make(base_url="http://nowhere.invalid/v1"))

    def test_a_server_that_goes_away_is_waited_for(self):
        gone = iter(["", *[ChatError(FaultKind.UNREACHABLE, "nothing answers")] * 9])
        observer, waits = scripted(lambda request: next(gone), max_retries=5)
        ask(observer, 1)
        assert ask(observer, 2).reason == "unreachable"
        assert len(waits) == 5


class TestARequestThatIsRefusedForItself:
    @pytest.mark.parametrize("fault", ["400", "400:list", "413"])
    def test_is_a_failure_without_retry_and_the_run_goes_on(self, server, make, score, waits, fault):
        server.plan(None, fault)
        observer = make()
        score(observer)  # what the server takes is known from then on
        given = score(observer)
        assert given.reason == "rejected"
        assert f"the provider rejects this request ({fault[:3]}: Th" in given.message
        assert waits == []
        assert isinstance(score(observer), Observation)


class TestUnusualReplies:
    @pytest.mark.parametrize("fault", ["no_usage", "parts", "thinks", "gzip"])
    def test_are_read(self, server, make, score, fault):
        server.plan(fault)
        given = score(make())
        assert isinstance(given, Observation)
        if fault == "no_usage":
            reply = given.calls[0].reply
            assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd, given.cost_usd) == (None,) * 4

    @pytest.mark.parametrize(
        "count",
        [*("-1", "1.5", "1e400", "true", '"12"', "null", "[3]", "{}", "NaN"), "9" * 19, str(2**63), "9" * 5_000],
    )
    def test_are_kept_where_their_usage_makes_no_sense(self, server, make, score, tmp_path, count):
        server.usage = f'{{"prompt_tokens": {count}, "completion_tokens": 5}}'
        with Store(tmp_path / "work.db", create=True) as store:
            given = score(make(journal=store.journal, budget_usd=1.0))
            assert isinstance(given, Observation), given
            reply = given.calls[0].reply
            assert store.journal.find(reply.request_key, 1) == reply
        assert (reply.prompt_tokens, reply.completion_tokens, reply.cost_usd) == (None, 5, None)

    @pytest.mark.parametrize("usage", ["[]", "7", '"much"', "null", "{}"])
    def test_are_kept_where_their_usage_is_none(self, server, make, score, usage):
        server.usage = usage
        assert isinstance(score(make()), Observation)


class TestTheRunStopsByItself:
    def test_when_twenty_calls_in_a_row_fail(self, server, make):
        server.fail, server.faults = 1.0, (*REPLY_FAULTS, "400", "500")
        observer = make(max_retries=0)
        for number in range(1, 21):
            assert isinstance(ask(observer, number), ObservationFailure)
        with pytest.raises(ObserverError, match="20 calls in a row failed, so the run stops; the last one: "):
            ask(observer, 21)
        assert server.calls == 20

    def test_but_not_when_one_among_them_works(self, server, make):
        server.plan(*(["500"] * 19 + [None]) * 2)
        observer = make(max_retries=0)
        given = [ask(observer, number) for number in range(1, 41)]
        assert sum(isinstance(one, Observation) for one in given) == 2
        assert isinstance(ask(observer, 41), Observation)

    def test_how_many_are_borne_can_be_set(self, server, make):
        server.fail, server.faults = 1.0, ("500",)
        patient = make(max_retries=0, max_failures_in_row=0)
        assert all(isinstance(ask(patient, number), ObservationFailure) for number in range(1, 31))
        hasty = make(max_retries=0, max_failures_in_row=2)
        assert [ask(hasty, number).reason for number in (1, 2)] == ["server", "server"]
        with pytest.raises(ObserverError, match="2 calls in a row failed"):
            ask(hasty, 3)

    def test_when_somebody_stops_it_and_those_who_wait_wake_up(self):
        waiting = threading.Event()

        def busy(request):
            waiting.set()
            return ChatError(FaultKind.THROTTLED, "busy", 600.0)

        observer = LlmObserver("ollama/m", client=ScriptedClient(busy))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(ask, observer, 1)
            assert waiting.wait(10)
            observer.with_journal(MemoryJournal()).stop("interrupted")
            with pytest.raises(ObserverError, match="interrupted"):
                future.result(10)
        with pytest.raises(ObserverError, match="interrupted"):
            ask(observer, 2)


class TestPace:
    def test_fewer_requests_are_under_way_after_a_complaint(self, server, make):
        server.limit, server.latency = 4, 0.01
        observer = make(max_retries=30)
        with ThreadPoolExecutor(16) as pool:
            given = list(pool.map(lambda number: ask(observer, number), range(1, 101)))
        assert all(isinstance(one, Observation) for one in given)
        assert server.most_under_way <= 16
        limit = observer._calls.limits.limit
        assert 1 <= limit <= 12
        # Once it is known how many the server bears, few are refused.
        assert server.given["429"] < 100

    def test_one_burst_of_complaints_halves_once_and_replies_creep_back(self):
        gate = threading.Barrier(8)
        complain = threading.Event()
        complain.set()

        def script(request):
            if complain.is_set():
                gate.wait(10)
                return ChatError(FaultKind.THROTTLED, "busy")
            return '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'

        observer, _ = scripted(script, max_retries=0)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: ask(observer, number), range(1, 9)))
            limits = observer._calls.limits
            assert limits.limit == 4
            complain.clear()
            list(pool.map(lambda number: ask(observer, number), range(1, 9)))
            assert 5 < limits.limit < 7


def test_one_in_five_calls_fails_at_random_in_every_way_and_nothing_is_lost(server, make):
    """Every call ends in a score or a failure with its reason, and asking again fills exactly the failures."""
    lost = tuple(fault for fault in LOST_FAULTS if fault != "slow_body")
    server.fail, server.faults = 0.2, (*REPLY_FAULTS, *lost)
    journal = MemoryJournal()
    observer = make(journal=journal, max_retries=1)
    numbers = range(1, 301)
    with ThreadPoolExecutor(12) as pool:
        first = list(pool.map(lambda number: ask(observer, number), numbers))
    failed = [
        number for number, given in zip(numbers, first, strict=True) if isinstance(given, ObservationFailure)
    ]
    assert 5 < len(failed) < 150
    assert all(given.reason and given.message for given in first if isinstance(given, ObservationFailure))
    assert server.replies == len(journal.replies)

    server.fail, before = 0.0, server.calls
    with ThreadPoolExecutor(12) as pool:
        second = list(pool.map(lambda number: ask(observer, number), numbers))
    assert all(isinstance(given, Observation) for given in second)
    assert server.calls - before == len(failed)
    for given, again in zip(first, second, strict=True):
        if isinstance(given, Observation):
            assert again.score == given.score
            assert again.calls[0].cached


class TestWhatAnErrorSays:
    @pytest.fixture
    def told(self, server, make):
        """Return a function to what is told of a refusal with some words, and whether the run ends."""

        def refuse(message: str) -> tuple[str, bool]:
            server.plan("400")
            server.rewrite = lambda content: json.dumps({"error": {"message": message}}).encode()
            try:
                return ask(make(structured="none"), 1).message, False
            except ObserverError as error:
                return str(error), True

        return refuse

    @pytest.mark.parametrize(
        ("message", "mend"),
        [
            ("Your credit balance is too low", "no credit left"),
            ("insufficient_quota", "no credit left"),
            ("API key is not valid. Please pass a valid one", "refuses the key"),
            ("Incorrect API key provided", "refuses the key"),
            ("api_key missing", "refuses the key"),
            ("The model 'é' does not exist", "does not know the model"),
            ("Model x is not a valid name", "does not know the model"),
            ("unknown_model", "does not know the model"),
            ("max_tokens is too large; this is not supported", "does not take a setting"),
            ("max_completion_tokens: not here", "does not take a setting"),
            ("Invalid response_format", "does not take a setting"),
            ("supermodels not foundational", None),
            (f"model {'x' * 90} not found", None),
            ("keys are missing", None),
        ],
    )
    def test_tells_what_to_mend(self, told, message, mend):
        words, ends = told(message)
        assert ends == (mend is not None)
        assert (mend or "rejects this request") in words

    @pytest.mark.parametrize("unit", ["model ", "api key is ", "max_tokens", " ", "é"])
    def test_is_read_in_linear_time(self, told, unit):
        assert grows_linearly(told, unit, most=500_000)
