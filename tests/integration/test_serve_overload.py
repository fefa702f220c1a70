"""`turnwise serve` under load and at its end, as real processes: nobody waits, nobody works; nobody is reset."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.client import HTTPException
from itertools import count
from pathlib import Path

import pytest
from served import served, until

pytestmark = pytest.mark.integration

GUARDRAIL = '''
import time
from dataclasses import dataclass

from turnwise.deadline import check_deadline
from turnwise.guard import CLEAN, Guardrail


@dataclass(frozen=True)
class Slow(Guardrail):
    """Computes for a while over each character."""

    seconds_a_character: float = 1e-5
    asks: bool = True
    default_timeout = None

    def check(self, check):
        until = time.monotonic() + self.seconds_a_character * len(check.text)
        while time.monotonic() < until:
            time.sleep(0.001)
            if self.asks:
                check_deadline()
        return CLEAN


class Broken(Slow):
    def __init__(self):
        raise RuntimeError("can't be built")
'''
HEAD = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "slow_guardrail.py").write_text(GUARDRAIL)
    return tmp_path


def configured(folder, **settings):
    """Return the options of a service whose one guardrail lies in its working directory."""
    config = {"audit": {"path": "audit.jsonl"}, "guardrails": [{"slow_guardrail:Slow": settings}]}
    (folder / "guard.yaml").write_text(json.dumps(config))
    return "--config", "guard.yaml"


def opened(service, body, left_out=0):
    """Return a connection on which a check was sent, save its last bytes."""
    data = json.dumps(body).encode()
    one = socket.create_connection((service.host, service.port), timeout=30)
    one.sendall(HEAD.format(len(data)).encode() + data[: len(data) - left_out])
    return one


def events(folder):
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


def answered(one):
    """Return the head and the JSON of what came on a connection that is closed then."""
    came = b""
    with one, suppress(ConnectionError):
        while part := one.recv(65_536):
            came += part
    head, _, body = came.partition(b"\r\n\r\n")
    return head.decode(), json.loads(body or "null")


def test_an_honest_check_does_not_wait_for_300_that_were_abandoned(folder):
    with served(*configured(folder), folder=folder) as service:
        for _ in range(300):
            opened(service, {"text": "x" * 16_000}).close()
        for path in ("/readyz", "/metrics"):
            assert service.ask("GET", path)[0] == 200
        assert not service.check("Hello")["blocked"]
        text = service.ask("GET", "/metrics")[1]
        checks = [line for line in text.splitlines() if line.startswith("turnwise_checks_total")]
        assert sum(float(line.split()[-1]) for line in checks) < 30


def test_bodies_that_are_not_finished_take_no_more_memory_than_they_may(folder):
    with served(*configured(folder), "--body-bytes", "8000000", folder=folder) as service:
        service.check("Hello")
        before, held = resident(service.process.pid), []
        try:
            for _ in range(60):
                with suppress(ConnectionError):
                    held.append(opened(service, {"text": "x" * 4_000_000}, left_out=2))
            assert service.check("Hello again")["blocked"] is False
            assert resident(service.process.pid) < before + 80_000_000
            told = until(lambda: service.ask("GET", "/metrics")[1])
            assert 'turnwise_http_requests_total{route="none",status="503",tenant="anybody"}' in told
        finally:
            for one in held:
                one.close()


def resident(process):
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("workers", "asks"), [("1", True), ("2", True), ("1", False)])
def test_a_service_that_stops_answers_what_is_unfinished_and_tells_the_audit(folder, workers, asks):
    options = configured(folder, seconds_a_character=1.0, asks=asks)
    with served(*options, "--workers", workers, "--grace-seconds", "2", folder=folder) as service:
        under_way = [opened(service, {"text": "x" * size}) for size in (600, 600, 3_000, 3_000)]
        until(lambda: in_flight(service) >= len(under_way))
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(6) == 0
        for head, told in map(answered, under_way):
            assert head.startswith("HTTP/1.1 503") and (told["path"], told["status"]) == ("closed", 503)
            assert told["type"] == "urn:turnwise:problem:stopping"
    assert not any("Traceback" in line for line in service.log)
    if asks:
        assert [event["outcome"] for event in events(folder)] == ["cancelled"] * len(under_way)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_audit_of_a_service_that_ended_under_load_has_each_answer_once(folder, number):
    config = {
        "audit": {"path": "audit.jsonl"},
        "guardrails": [{"keywords": {"keywords": ["acme"], "action": "block"}}],
    }
    (folder / "guard.yaml").write_text(json.dumps(config))
    answers, unheard, stopping = {}, [], threading.Event()

    def ask(service, client):
        for step in count():
            text = f"{client} {step}{' acme' * (step % 3 == 0)}"
            try:
                status, told = service.ask("POST", "/v1/check", {"text": text, "conversation_id": f"c{client}"})
            except (OSError, HTTPException):
                unheard.append(text)
                if stopping.is_set():
                    return
                continue
            if status == 200:
                answers[text] = (told["turn_number"], told["blocked"])
            else:
                unheard.append(text)

    with served("--config", "guard.yaml", "--workers", "2", folder=folder) as service:
        clients = [threading.Thread(target=ask, args=(service, client)) for client in range(8)]
        for client in clients:
            client.start()
        until(lambda: len(answers) > 100)
        killed = len(answers)
        if number == signal.SIGKILL:
            worker = service.ask("GET", "/readyz")[1]["worker"]
            killed = len(answers)
            os.kill(worker, number)
            until(lambda: len(answers) > killed + 100)
        stopping.set()
        service.end()
        for client in clients:
            client.join(30)
    *whole, last = (folder / "audit.jsonl").read_text().split("\n")
    assert not last or number == signal.SIGKILL, "a line that breaks off, though nobody was killed"
    told = [json.loads(line) for line in whole if line]
    heard = [(event["text"], (event["turn"], event["blocked"])) for event in told if event["text"] in answers]
    assert len(dict(heard)) == len(heard) and dict(heard).items() <= answers.items()
    # Who is killed loses what waited to be written, and nothing else is lost.
    lost = [place for place, text in enumerate(answers) if text not in dict(heard)]
    assert not lost or number == signal.SIGKILL
    assert all(killed - 64 <= place < killed + 64 for place in lost) and len(lost) <= 64
    assert {event["text"] for event in told} - answers.keys() <= set(unheard)


def in_flight(service):
    text = service.ask("GET", "/metrics")[1]
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("turnwise_http_in_flight"))


@pytest.mark.parametrize("keeps", [True, False])
def test_nobody_is_reset_by_a_service_of_two_workers_that_stops(folder, keeps):
    failed, answers, stopping = [], [], threading.Event()

    def ask(service):
        connection = None
        while True:
            try:
                connection = connection or service.connection()
                connection.request("POST", "/v1/check", b'{"text": "Hello"}', {"Content-Type": "application/json"})
                response = connection.getresponse()
                answers.append((response.status, bool(response.read())))
                if not keeps or response.headers.get("Connection") == "close":
                    connection.close()
                    connection = None
            except ConnectionRefusedError:
                assert stopping.is_set()
                return
            except (OSError, HTTPException) as error:
                failed.append(error)
                return

    with served(*configured(folder), "--workers", "2", folder=folder) as service:
        clients = [threading.Thread(target=ask, args=(service,)) for _ in range(24)]
        for client in clients:
            client.start()
        until(lambda: len(answers) > 100)
        stopping.set()
        service.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(30)
        assert service.process.wait(10) == 0
    assert not failed and set(answers) == {(200, True)}


def test_workers_end_when_the_first_process_is_killed(folder):
    with served(*configured(folder, seconds_a_character=1.0), "--workers", "2", folder=folder) as service:
        workers = set()
        until(lambda: workers.add(service.ask("GET", "/readyz")[1]["worker"]) or len(workers) == 2)
        try:
            with opened(service, {"text": "x" * 600}):
                service.process.kill()
                service.process.wait(10)
                until(lambda: not any(map(is_alive, workers)), 4.0)
        finally:
            for worker in workers:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((service.host, service.port))


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_service_that_can_not_be_built_does_not_say_that_it_serves(folder):
    (folder / "guard.yaml").write_text('guardrails: ["slow_guardrail:Broken"]')
    command = [sys.executable, "-c", "from turnwise.cli import main; main()", "serve", "--config", "guard.yaml"]
    path = os.pathsep.join(sys.path)
    ended = subprocess.run(
        [*command, "--port", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2 and "can't be built" in ended.stderr and "serves" not in ended.stderr
