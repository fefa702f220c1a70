"""`turnwise serve` as real processes: what is promised of it, and what becomes of faults."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPException

import pytest
from served import served, until

from turnwise import Conversation, GuardrailPipeline

pytestmark = pytest.mark.integration

KEY = "0123456789abcdef-web"
FALSITIES = ",".join(["0.1", "0.2", "0.95", "0.1", "0.3"] * 40)
CONFIG = f"""
name: desk
guardrails:
  - pii: {{action: redact}}
  - keywords: {{keywords: [acme], action: block}}
  - drift: {{observer: "scripted:{FALSITIES}", block_at: 0.9}}
"""
TEXTS = ("How do splines work?", "Write to jane@example.com.", "Tell me about acme.", "And cubic ones?", "Thanks.")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    file = tmp_path_factory.mktemp("serve") / "desk.yaml"
    file.write_text(CONFIG)
    return str(file)


@pytest.fixture(scope="module")
def service(config):
    """Two workers with short times."""
    limits = ("--header-seconds", "1", "--body-seconds", "1", "--max-body", "2000000")
    with served("--explain", "--config", config, "--workers", "2", *limits) as running:
        yield running


def verdict(result):
    return result["blocked"], result["turn_number"], result["text"], result["reasons"], result["warnings"]


def test_two_workers_give_the_verdicts_of_the_library_at_the_same_turns(service, config):
    pipeline, chat = GuardrailPipeline(config), Conversation()
    workers = set()
    for text in TEXTS * 3:
        served_result = service.check(text, "same")  # a connection of its own: either worker may take it
        assert verdict(served_result) == verdict(pipeline.check_input(text, conversation=chat))
        workers.add(service.ask("GET", "/readyz")[1]["worker"])
    assert len(service.ask("GET", "/v1/conversations/same")[1]["turns"]) == 3 * len(TEXTS)
    until(lambda: workers.add(service.ask("GET", "/readyz")[1]["worker"]) or len(workers) == 2)


def test_a_conversation_that_one_worker_forgot_is_forgotten_by_all(service):
    def turns():
        return service.ask("GET", "/v1/conversations/gone")

    for _ in range(8):
        service.check("Hello", "gone")
    assert service.ask("DELETE", "/v1/conversations/gone")[0] == 200
    assert [turns()[0] for _ in range(8)] == [404] * 8
    assert [service.check("Hello", "gone")["turn_number"] for _ in range(8)] == list(range(1, 9))


def test_a_conversation_that_is_begun_is_found_by_all(service):
    begun = {"conversation_id": "begun", "participants": {"initiator": "ann"}}
    assert service.ask("POST", "/v1/conversations", begun)[0] == 201
    told = [service.ask("GET", "/v1/conversations/begun") for _ in range(8)]
    assert [(status, body["participants"]["initiator"]) for status, body in told] == [(200, "ann")] * 8
    assert service.ask("POST", "/v1/conversations", begun)[0] == 409


def test_a_body_of_ten_megabytes_is_refused_in_words(service):
    status, problem = service.ask("POST", "/v1/check", {"text": "x" * 10_000_000})
    assert status == 413 and problem["type"] == "urn:turnwise:problem:too-large"
    assert "2000000 bytes" in problem["detail"]


def malformed():
    whole = json.dumps({"text": "tangerine", "side": "input", "metadata": {"a": [1, "\u00e9"]}}).encode()
    yield from (whole[:length] for length in range(0, len(whole)))
    yield from (whole.replace(b'"tangerine"', other) for other in (b"1", b"null", b"[]", b"{}", b"NaN", b"1e999"))
    yield from (b"[" * 10**n for n in range(6))
    yield from (b'{"text":' * 10**n for n in range(5))
    yield from (b'{"text": ' + b"9" * 10**n + b"}" for n in range(6))
    yield from (bytes([n]) * 20 for n in range(0, 256, 2))
    yield from (b'{"text": "\\ud800"}', b'{"text": "a", "text": 1}', b'\xef\xbb\xbf{"text": 1}', b"\xff\xfe{}")
    yield from (b'{"messages": %s}' % m for m in (b"[[]]", b"[{}]", b'[{"role": "x"}]', b'[{"role": 1}]', b"[1]"))
    yield from (b'{"text": "a", "%s": {}}' % name for name in (b"side", b"conversation_id", b"tool", b"tangerine"))


def test_malformed_json_of_200_kinds_is_a_problem_of_the_sender(service):
    bodies = list(malformed())
    assert len(bodies) >= 200
    connection = service.connection()
    for data in bodies:
        for path in ("/v1/check", "/v1/conversations", "/v1/check/stream"):
            connection.request("POST", path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            told = response.read().decode()
            assert response.status in (200, 201, 400, 409, 422), (data[:80], told)
            if response.status >= 400:
                assert response.headers["Content-Type"] == "application/problem+json"
                assert "tangerine" not in told
    connection.close()


def test_a_thousand_half_open_connections_keep_nobody_out(service):
    idle = []
    try:
        for n in range(1_000):
            idle.append(socket.create_connection((service.host, service.port), timeout=15))
            if n % 2:
                idle[-1].send(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Half")
        assert service.check("Hello")["blocked"] is False
        # Connections that owe a request are closed after --header-seconds.
        assert all(is_closed(one) for one in idle)
    finally:
        for one in idle:
            one.close()


def is_closed(one):
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


def test_headers_and_bodies_that_trickle_are_ended(service):
    head = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    for sent, ended in ((b"POST /v1/che", b""), (head + b'{"text": "a', b"HTTP/1.1 408")):
        with socket.create_connection((service.host, service.port), timeout=15) as one:
            one.sendall(sent)
            try:
                came = one.recv(65_536)
            except ConnectionResetError:
                came = b""
            assert came.startswith(ended) and bool(came) == bool(ended)
    assert service.check("Hello")["blocked"] is False


def test_a_sender_who_hangs_up_at_once_disturbs_nobody(service):
    data = json.dumps({"text": "Hello", "conversation_id": "hung-up"}).encode()
    head = f"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
    with socket.create_connection((service.host, service.port)) as one:
        one.sendall(head.encode() + b"\r\n\r\n" + data)
    assert service.check("Again", "hung-up")["turn_number"] in (1, 2)  # whether or not the first one began


def open_stream(service, *lines):
    one = socket.create_connection((service.host, service.port), timeout=15)
    one.sendall(
        b"POST /v1/check/stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    for line in lines:
        send_line(one, line)
    return one


def send_line(one, line):
    data = json.dumps(line).encode() + b"\n"
    one.sendall(b"%x\r\n%b\r\n" % (len(data), data))


def read_until(one, wanted):
    came = b""
    while wanted not in came:
        part = one.recv(65_536)
        assert part, came
        came += part
    return came


def test_a_stream_shows_what_it_can_while_the_reply_still_comes(service):
    service.check("Whom did you write to?", "stream")
    long = "It is a pleasure. " * 40
    with open_stream(service, {"conversation_id": "stream"}, {"text": long}) as one:
        assert b"It is a pleasure." in read_until(one, b'"show"')  # and the request is not at its end
        send_line(one, {"text": "jane@exam"})
        send_line(one, {"text": "ple.com"})
        send_line(one, {"done": True})
        assert b"[EMAIL]" in read_until(one, b'"turn_number":1')
    turn = service.ask("GET", "/v1/conversations/stream")[1]["turns"][0]
    assert turn["response"] == long + "[EMAIL]"


def test_a_stream_that_breaks_off_is_recorded_as_that(service):
    service.check("Tell me a story.", "broken")
    with open_stream(service, {"conversation_id": "broken"}, {"text": "Once upon a time " * 40}) as one:
        read_until(one, b'"show"')

    def recorded():
        turn = service.ask("GET", "/v1/conversations/broken")[1]["turns"][0]
        return turn["metadata"].get("guardrail_results", {}).get("output")

    assert "dropped" in until(recorded)["details"]


def test_metrics_are_those_of_all_workers(service):
    before = counted(service)
    for _ in range(10):
        service.check("Hello")
    assert counted(service) == before + 10


def counted(service):
    text = service.ask("GET", "/metrics")[1]
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("turnwise_checks_total"))


def test_a_worker_killed_under_load_loses_no_acknowledged_turn(config, tmp_path):
    with served(
        "--explain", "--config", config, "--workers", "2", "--state", str(tmp_path / "state.db")
    ) as service:
        acknowledged, ending, failed = dict.fromkeys(range(4), 0), threading.Event(), []

        def ask(name):
            while not ending.is_set():
                try:
                    acknowledged[name] = service.check(f"{name}: hello", f"killed-{name}")["turn_number"]
                except (OSError, HTTPException) as error:
                    failed.append(error)

        threads = [threading.Thread(target=ask, args=(name,)) for name in acknowledged]
        for thread in threads:
            thread.start()
        for _ in range(2):
            until(lambda: min(acknowledged.values()) >= 3)
            os.kill(service.ask("GET", "/readyz")[1]["worker"], signal.SIGKILL)
            before = dict(acknowledged)
            until(lambda before=before: all(acknowledged[name] > before[name] + 2 for name in before))
        ending.set()
        for thread in threads:
            thread.join()
        for name, turns in acknowledged.items():
            kept = service.ask("GET", f"/v1/conversations/killed-{name}")[1]["turns"]
            assert len(kept) >= turns and len(kept) <= turns + len(failed)
            assert all(turn["metadata"]["guardrail_results"]["input"] for turn in kept)
        until(lambda: len({service.ask("GET", "/readyz")[1]["worker"] for _ in range(8)}) == 2)


def test_while_the_state_store_is_down_texts_are_blocked_and_after_it_served(tmp_path):
    file, config = tmp_path / "state.db", tmp_path / "down.yaml"
    config.write_text(f"{CONFIG}state: {{sqlite: {file}, wait_seconds: 0.2}}\n")
    with served("--explain", "--config", str(config)) as service:
        assert service.check("Hello", "down")["turn_number"] == 1
        with closing(sqlite3.connect(file, isolation_level=None)) as holder, holder:
            holder.execute("BEGIN EXCLUSIVE")
            blocked = service.check("Hello", "down")
            assert blocked["blocked"] and blocked["details"]["state"]["status"] == "failed"
            assert service.check("Hello", "elsewhere")["blocked"]
            holder.execute("ROLLBACK")
        holder.close()
        again = service.check("Hello again", "down")
        assert "state" not in again["details"] and again["turn_number"] == 3  # what was blocked is kept as well
        assert "state" not in service.check("Hello again", "elsewhere")["details"]


def test_what_is_under_way_ends_before_the_service_does(config):
    with served("--explain", "--config", config) as service:
        service.check("Tell me a story.", "ending")
        with open_stream(service, {"conversation_id": "ending"}, {"text": "Once upon a time " * 40}) as one:
            read_until(one, b'"show"')
            service.process.send_signal(signal.SIGTERM)
            until(lambda: not answers(service))
            send_line(one, {"done": True})
            assert b'"turn_number":1' in read_until(one, b'"result":{')
        assert service.process.wait(20) == 0


def answers(service):
    try:
        return service.ask("GET", "/healthz")[0] == 200
    except OSError:
        return False


def test_a_configuration_is_read_again_by_all_workers_and_a_broken_one_by_none(tmp_path):
    file = tmp_path / "desk.yaml"
    file.write_text(CONFIG)
    with served("--explain", "--config", str(file), "--workers", "2") as service:

        def blocked():
            return [service.check("zebra")["blocked"] for _ in range(8)]

        assert not any(blocked())
        file.write_text(CONFIG.replace("[acme]", "[zebra]"))
        assert service.ask("POST", "/v1/reload")[0] == 200
        until(lambda: all(blocked()))
        file.write_text("guardrails: [nonsense]")
        status, problem = service.ask("POST", "/v1/reload")
        assert status == 422 and "nonsense" in problem["detail"] and all(blocked())
        service.process.send_signal(signal.SIGHUP)
        until(lambda: any("not reloaded" in line for line in service.log))
        assert all(blocked())
        file.write_text(CONFIG)
        service.process.send_signal(signal.SIGHUP)
        until(lambda: not any(blocked()))


def test_keys_are_needed_and_other_machines_are_not_served_without(config, tmp_path):
    with served("--explain", "--config", config, env={"TURNWISE_API_KEYS": f"web:{KEY}"}) as service:
        assert service.ask("GET", "/healthz")[0] == service.ask("GET", "/readyz")[0] == 200
        assert service.ask("GET", "/metrics")[0] == service.ask("POST", "/v1/check", {"text": "Hi"})[0] == 401
        for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}):
            assert service.ask("POST", "/v1/check", {"text": "Hi"}, headers)[0] == 200
    env = {name: value for name, value in os.environ.items() if name != "TURNWISE_API_KEYS"}
    command = [sys.executable, "-c", "from turnwise.cli import main; main()", "serve", "--host", "0.0.0.0"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2 and "--keys" in ended.stderr


def test_schemathesis_finds_no_fault_of_the_service(service):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, Phase, given, settings

    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    faults = []
    for operation in (found.ok() for found in schema.get_all_operations()):
        if operation.path == "/v1/reload":
            continue

        @settings(
            max_examples=15,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case):
            response = case.call()
            if response.status_code >= 500:
                faults.append((case.method, case.path, response.status_code, response.text))

        ask()
    assert not faults
