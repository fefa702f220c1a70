"""Several API keys at `turnwise serve` with two workers: apart, each with its share, switched while it runs."""

import threading

import pytest
from served import served, until

pytestmark = pytest.mark.integration

WEB, DESK, OPS = ({"X-API-Key": f"0123456789abcdef-{name}"} for name in ("web", "desk", "ops"))
KEYS = f"""
tenants:
  - {{name: web, key: {WEB["X-API-Key"]}}}
  - {{name: desk, key: {DESK["X-API-Key"]}, config: desk.yaml}}
  - {{name: ops, key: {OPS["X-API-Key"]}, operator: true}}
"""
GUARDRAILS = "guardrails:\n  - pii: {action: redact}\n  - keywords: {keywords: [acme], action: block}\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "keys.yaml").write_text(KEYS)
    (folder / "guard.yaml").write_text(GUARDRAILS)
    (folder / "desk.yaml").write_text(GUARDRAILS.replace("acme", "splines"))
    return folder


@pytest.fixture(scope="module")
def service(files):
    options = ("--config", str(files / "guard.yaml"), "--keys", str(files / "keys.yaml"), "--workers", "2")
    with served(*options) as running:
        yield running


def check(service, text, headers, **more):
    return service.ask("POST", "/v1/check", {"text": text, **more}, headers)


def test_whatever_worker_answers_nothing_of_another_key_is_there(service):
    for _ in range(4):
        assert check(service, "I am jane@example.com", WEB, conversation_id="c")[0] == 200
    for _ in range(8):  # each on a connection of its own: either worker may take it
        assert service.ask("GET", "/v1/conversations/c", headers=DESK)[0] == 404
        status, told = service.ask("GET", "/v1/conversations/c", headers=WEB)
        assert status == 200 and len(told["turns"]) == 4
    assert check(service, "Hello", DESK, conversation_id="c")[1]["turn_number"] == 1
    assert service.ask("DELETE", "/v1/conversations/c", headers=DESK)[0] == 200
    assert service.ask("GET", "/v1/conversations/c", headers=WEB)[0] == 200


def test_a_mode_holds_in_all_workers_within_a_second(service):
    def blocked(headers, text):
        return [check(service, text, headers)[1]["blocked"] for _ in range(12)]

    assert blocked(WEB, "acme") == blocked(DESK, "splines") == [True] * 12
    for mode, found in (("off", False), ("log", False), ("on", True)):
        assert service.ask("PUT", "/v1/tenants/web/mode", {"mode": mode}, OPS)[0] == 200
        until(lambda found=found: blocked(WEB, "acme") == [found] * 12, 3.0)
        assert blocked(DESK, "splines") == [True] * 12
    assert service.ask("PUT", "/v1/tenants/web/mode", {"mode": "off"}, WEB)[0] == 403


def test_a_flood_of_one_key_does_not_starve_another(service):
    done, flooding = threading.Event(), []

    def flood():
        while not done.is_set():
            flooding.append(check(service, "word " * 20_000, WEB)[0])

    threads = [threading.Thread(target=flood) for _ in range(24)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(flooding) > 10, 60.0)
        assert [check(service, "Hello", DESK)[0] for _ in range(20)] == [200] * 20
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert set(flooding) <= {200, 503}


def test_a_reload_takes_keys_and_configurations_into_all_workers(service, files):
    new = {"X-API-Key": "0123456789abcdef-new"}
    assert check(service, "Hello", new)[0] == 401
    (files / "keys.yaml").write_text(f"{KEYS}  - {{name: new, key: {new['X-API-Key']}, preset: basic}}\n")
    (files / "desk.yaml").write_text(GUARDRAILS.replace("acme", "knots"))
    assert service.ask("POST", "/v1/reload", headers=WEB)[0] == 403
    assert service.ask("POST", "/v1/reload", headers=OPS)[0] == 200
    until(lambda: [check(service, "Hello", new)[0] for _ in range(12)] == [200] * 12)
    until(lambda: all(check(service, "knots", DESK)[1]["blocked"] for _ in range(12)))
    metrics = service.ask("GET", "/metrics", headers=OPS)[1]
    assert 'tenant="new"' in metrics and 'tenant="desk"' in metrics
