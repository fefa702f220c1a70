"""Who no longer waits gets no work, and what is too much is refused at once: the routes, asked in process."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from contextlib import contextmanager

import pytest

from turnwise import GuardrailPipeline
from turnwise.deadline import check_deadline
from turnwise.guard import CLEAN, Guardrail, MemoryStateStore
from turnwise.serve import ServeSettings, create_app
from turnwise.serve.server import turn_away

TestClient = pytest.importorskip("fastapi.testclient").TestClient

SECONDS = 20.0
LINES = {"Content-Type": "application/x-ndjson"}


class Computing(Guardrail):
    """Computes over texts that begin with "slow" until it is let go, and asks between its steps."""

    name = "computing"
    default_timeout = None

    def __init__(self, asks=True):
        self.asks = asks
        self.begun = []
        self.entered, self.ended, self.release = threading.Event(), threading.Event(), threading.Event()

    def check(self, check):
        self.begun.append(check.text)
        if check.text.startswith("slow"):
            self.entered.set()
            try:
                while not self.release.wait(0.005):
                    if self.asks:
                        check_deadline()
            finally:
                self.ended.set()
        return CLEAN


class Audit:
    """Keeps the events."""

    def __init__(self):
        self.events = []

    def write(self, event):
        self.events.append(event)

    def close(self):
        pass


@contextmanager
def serving(rail=None, store=None, **settings):
    """Serve a pipeline with one guardrail; its threads have ended after the block."""
    rail, audit = rail or Computing(), Audit()
    with GuardrailPipeline({"guardrails": [rail]}, audit=audit, state_store=store) as pipeline:
        app = create_app(pipeline, ServeSettings(explain=True, **settings))
        try:
            with TestClient(app, raise_server_exceptions=False) as client:
                yield client, rail, audit
        finally:
            rail.release.set()
            assert app.state.service.close(SECONDS)


class Request:
    """A request under way, whose client may go away."""

    def __init__(self, app, body, path="/v1/check", kind="application/json", whole=True):
        self.came, self.sent = asyncio.Queue(), []
        self.send_part(body, more=not whole)
        headers = [(b"content-type", kind.encode())]
        about = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        self.task = asyncio.ensure_future(app(about, self.came.get, self.keep))

    async def keep(self, message):
        self.sent.append(message)

    def send_part(self, body, more=True):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.came.put_nowait({"type": "http.request", "body": data, "more_body": more})

    def leave(self):
        self.came.put_nowait({"type": "http.disconnect"})

    async def answer(self):
        """Return the status and what was sent; None where nothing was."""
        await asyncio.wait_for(self.task, SECONDS)
        if not self.sent:
            return None
        return self.sent[0]["status"], b"".join(part.get("body", b"") for part in self.sent[1:])


async def soon(event):
    assert await asyncio.to_thread(event.wait, SECONDS)


def on_loop(client, run):
    """Run a coroutine function on the event loop of the application."""
    return client.portal.call(run, client.app)


def unchecked(client, why):
    return f'turnwise_unchecked_total{{why="{why}"}} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize("store", [None, MemoryStateStore()])
def test_a_client_who_goes_away_ends_its_check(store):
    with serving(store=store, threads=1) as (client, rail, audit):

        async def run(app):
            request = Request(app, {"text": "slow", "conversation_id": "gone"})
            await soon(rail.entered)
            request.leave()
            assert await request.answer() is None
            await soon(rail.ended)

        on_loop(client, run)
        # The next check waits for the same thread, so the turn is written by then.
        assert client.post("/v1/check", json={"text": "Hello", "conversation_id": "gone"}).status_code == 200
        gone = [event.result for event in audit.events if event.result.turn_number == 1]
        assert [result.outcome for result in gone] == ["disconnected"]
        assert unchecked(client, "disconnected")
        first, second = client.get("/v1/conversations/gone").json()["turns"]
        assert first["metadata"]["guardrail_results"]["details"]["cancelled"]["status"] == "failed"
        assert not second["metadata"]["guardrail_results"]["blocked"]


def test_a_check_that_nobody_waits_for_any_more_does_not_begin():
    with serving(threads=1) as (client, rail, _):

        async def run(app):
            first = Request(app, {"text": "slow"})
            await soon(rail.entered)
            waiting, left = Request(app, {"text": "kept"}), Request(app, {"text": "left"})
            left.leave()
            assert await left.answer() is None
            rail.release.set()
            assert [(await one.answer())[0] for one in (first, waiting)] == [200, 200]

        on_loop(client, run)
        assert rail.begun == ["slow", "kept"]


def test_what_would_wait_for_too_long_is_refused_at_once_and_says_the_way_of_the_text():
    with serving(threads=1, queue_seconds=0.2) as (client, rail, _):

        async def run(app):
            first = Request(app, {"text": "slow"})
            await soon(rail.entered)
            others = [
                Request(app, {"text": "x" * 1_000}) for _ in range(3)
            ]  # a quarter of a second each, it expects
            status, told = await others[2].answer()
            problem = json.loads(told)
            assert (status, problem["type"], problem["path"]) == (503, "urn:turnwise:problem:busy", "closed")
            assert dict(others[2].sent[0]["headers"])[b"retry-after"] == b"1"
            rail.release.set()
            assert [(await one.answer())[0] for one in (first, *others)] == [200, 200, 503, 503]

        on_loop(client, run)


@pytest.mark.parametrize("asks", [True, False])
def test_a_check_has_its_time_and_is_answered_then_whether_its_guardrail_ends_or_not(asks):
    with serving(Computing(asks), check_seconds=0.2) as (client, rail, audit):
        response = client.post("/v1/check", json={"text": "slow"})
        assert (response.status_code, response.json()["path"]) == (503, "closed")
        assert response.json()["type"] == "urn:turnwise:problem:check-timeout"
        if not asks:
            rail.release.set()
        assert rail.ended.wait(SECONDS)
        assert unchecked(client, "check-timeout")
    assert [event.result.outcome for event in audit.events] == ["timed_out" if asks else "passed"]


def test_health_readiness_and_metrics_are_told_while_every_thread_computes():
    with serving(threads=1, in_flight=1) as (client, rail, _):

        async def run(app):
            request = Request(app, {"text": "slow"})
            await soon(rail.entered)
            return request

        request = on_loop(client, run)
        for path in ("/healthz", "/readyz", "/metrics"):
            assert client.get(path).status_code == 200
        assert not request.task.done()


def test_short_texts_overtake_long_ones():
    with serving() as (client, rail, _):

        async def run(app):
            long = [Request(app, {"text": "slow" + "x" * 15_000}) for _ in range(4)]
            await soon(rail.entered)
            assert (await Request(app, {"text": "Hello"}).answer())[0] == 200
            assert not any(one.task.done() for one in long)
            rail.release.set()
            assert {(await one.answer())[0] for one in long} == {200}

        on_loop(client, run)


def test_unfinished_bodies_are_bounded_together_and_the_one_that_stands_still_makes_room():
    with serving(body_bytes=100_000) as (client, _, _):

        async def run(app):
            held = [Request(app, b'{"text": "' + b"x" * 40_000, whole=False) for _ in range(2)]
            while "turnwise_http_body_bytes 80020.0" not in await asyncio.to_thread(metrics):
                await asyncio.sleep(0.01)
            assert (await Request(app, {"text": "y" * 50_000}).answer())[0] == 200
            dropped, kept = sorted(held, key=lambda one: not one.task.done())
            status, told = await dropped.answer()
            assert status == 503 and json.loads(told)["type"] == "urn:turnwise:problem:busy"
            kept.send_part(b'"}', more=False)
            assert (await kept.answer())[0] == 200
            assert (await Request(app, {"text": "z" * 200_000}).answer())[0] == 503

        def metrics():
            return client.get("/metrics").text

        on_loop(client, run)
        assert "turnwise_http_body_bytes 0.0" in metrics()


def test_where_the_service_stops_what_is_unfinished_is_answered_and_audited():
    with serving(threads=1) as (client, rail, audit):

        async def run(app):
            lines = Request(app, b'{}\n{"text": "Once"}\n', "/v1/check/stream", LINES["Content-Type"], whole=False)
            while not lines.sent:
                await asyncio.sleep(0.01)
            first = Request(app, {"text": "slow"})
            await soon(rail.entered)
            waiting, unread = Request(app, {"text": "Hello"}), Request(app, b'{"te', whole=False)
            await asyncio.sleep(0.05)
            app.state.service.stop()
            for one in (first, waiting, unread):
                status, told = await one.answer()
                assert status == 503 and json.loads(told)["path"] == "closed"
            told = (await lines.answer())[1].splitlines()[-1]
            assert json.loads(told)["problem"]["type"] == "urn:turnwise:problem:stopping"
            await soon(rail.ended)

        on_loop(client, run)
    assert sorted(event.result.outcome for event in audit.events) == ["cancelled"] * 3
    assert rail.begun == ["slow"]


def test_a_reply_that_stalls_or_loses_its_client_is_no_block():
    with serving(body_seconds=0.2) as (client, _, audit):

        async def run(app):
            body = b'{"conversation_id": "broken"}\n{"text": "Once upon"}\n'
            for leaves in (False, True):
                lines = Request(app, body, "/v1/check/stream", LINES["Content-Type"], whole=False)
                while not lines.sent:
                    await asyncio.sleep(0.01)
                if leaves:
                    lines.leave()
                await lines.answer()

        on_loop(client, run)
        found = client.get("/v1/conversations/broken/forensics").json()
        text = client.get("/metrics").text
    assert [event.result.outcome for event in audit.events] == ["stalled", "disconnected"]
    assert found["totals"]["blocked_turns"] == 0
    for outcome in ("stalled", "disconnected"):
        assert f'turnwise_checks_total{{kind="output",tenant="anybody",verdict="{outcome}"}} 1.0' in text
    assert "turnwise_blocks_total{" not in text


def test_the_state_store_is_asked_once_a_second_at_most():
    class Store(MemoryStateStore):
        asked = 0

        def get(self, kind, key):
            Store.asked += key == "readyz"
            return super().get(kind, key)

    with serving(store=Store()) as (client, _, _):
        assert {client.get("/readyz").json()["state"] for _ in range(10)} == {"up"}
    assert Store.asked == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is done")
def test_who_connects_late_is_refused_once_nobody_listens():
    opened = socket.create_server(("127.0.0.1", 0))
    address = opened.getsockname()
    with socket.create_connection(address) as early:
        turn_away(opened)
        refused = []

        def come_late():
            try:
                socket.create_connection(address, timeout=30).close()
            except ConnectionRefusedError as error:
                refused.append(error)

        late = threading.Thread(target=come_late)
        late.start()
        accepted, _ = opened.accept()
        late.join(0.2)
        opened.setblocking(False)
        with pytest.raises(BlockingIOError):
            opened.accept()
        opened.close()
        early.sendall(b"still here")
        with accepted:
            assert accepted.recv(32) == b"still here"
        late.join(30)
    assert len(refused) == 1
