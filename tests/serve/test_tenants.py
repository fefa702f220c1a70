"""What one API key made does not exist for another, nor can it keep the other waiting."""

from __future__ import annotations

import json
import threading
from hashlib import sha256
from pathlib import Path

import pytest

from turnwise import GuardrailPipeline
from turnwise.errors import UsageError
from turnwise.guard import CLEAN, Guardrail, MemoryStateStore, SqliteStateStore
from turnwise.serve import ApiKeys, ConfigSource, ServeSettings, TenantSettings, create_app

TestClient = pytest.importorskip("fastapi.testclient").TestClient

WEB, DESK, OPS = ({"X-API-Key": f"0123456789abcdef-{name}"} for name in ("web", "desk", "ops"))
PLAIN = [f"{name}:0123456789abcdef-{name}" for name in ("web", "desk")]
CONFIG = {
    "session_by": "initiator",
    "rate_limits": {"per_key": {"minute": 2}},
    "guardrails": [
        {"pii": {"action": "redact", "on": "all"}},
        {"keywords": {"keywords": ["acme"], "action": "block", "on": "all"}},
        {"drift": {"observer": "scripted:" + ",".join(["0.1"] * 50)}},
    ],
}
LITELLM = "/beta/litellm_basic_guardrail_api"


def client_of(config=CONFIG, store=None, audit=None, **settings):
    pipeline = GuardrailPipeline(config, state_store=store, audit=audit)
    settings = {"keys": ApiKeys(PLAIN), "explain": True, **settings}
    return TestClient(create_app(pipeline, ServeSettings(**settings)), raise_server_exceptions=False)


def check(client, text, headers, **more):
    response = client.post("/v1/check", json={"text": text, **more}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_what_a_key_made_does_not_exist_for_another(store):
    with client_of(store=store()) as client:
        begun = {"conversation_id": "c", "participants": {"initiator": "ann"}}
        assert client.post("/v1/conversations", json=begun, headers=WEB).status_code == 201
        assert check(client, "I am jane@example.com", WEB, conversation_id="c")["turn_number"] == 1

        def answers(path, method="GET", **more):
            one, none = (client.request(method, path.format(name), headers=DESK, **more) for name in "cx")
            return one.status_code, one.content == none.content

        # As though it were not there: the same answer as for a name that nothing has.
        assert answers("/v1/conversations/{}") == answers("/v1/conversations/{}/forensics") == (404, True)
        assert answers("/v1/conversations/{}", "DELETE") == (404, True)
        for path in ("/v1/sessions/ann", "/v1/sessions/c"):
            assert client.get(path, headers=DESK).status_code == 404
            assert client.delete(path, headers=DESK).status_code == 404
            assert client.post(f"{path}/release", headers=DESK).status_code == 404
        assert client.get("/v1/conversations", headers=DESK).json() == {"conversations": []}
        reply = {"text": "x", "side": "output", "conversation_id": "c", "turn_number": 1}
        assert client.post("/v1/check", json=reply, headers=DESK).status_code == 409  # it has no such turn
        client.delete("/v1/conversations/c", headers=DESK)
        # Nor is its name taken: each has one of its own.
        assert client.post("/v1/conversations", json=begun, headers=DESK).status_code == 201
        assert client.post("/v1/conversations", json=begun, headers=DESK).status_code == 409
        assert check(client, "Hello", DESK, conversation_id="c")["stance"]["interactions"] == 1
        assert client.delete("/v1/sessions/ann", headers=DESK).status_code == 204
        assert client.delete("/v1/conversations/c", headers=DESK).status_code == 200
        (turn,) = client.get("/v1/conversations/c", headers=WEB).json()["turns"]
        assert turn["prompt"] == "I am [EMAIL]"
        assert client.get("/v1/sessions/ann", headers=WEB).json()["stance"]["interactions"] == 1


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_limits_places_and_streams_are_of_one_key(store):
    with client_of(store=store()) as client:
        for headers in (WEB, DESK):
            said = [check(client, "Hello", headers, key="ann")["rate_limited"] for _ in range(3)]
            assert said == [False, False, True]
        hello = {"messages": [{"role": "user", "content": "Hello"}], "conversation_id": "list"}
        for headers in (WEB, DESK):
            asked = [client.post("/v1/check", json=hello, headers=headers).json() for _ in range(2)]
            assert [one["recorded"] for one in asked] == [False, True]
        lines = [{"conversation_id": "list"}, {"text": "Hi."}, {"done": True}]
        kind = {"Content-Type": "application/x-ndjson"}
        client.post("/v1/check/stream", content="\n".join(map(json.dumps, lines)), headers=DESK | kind)
        turns = [client.get("/v1/conversations/list", headers=one).json()["turns"] for one in (WEB, DESK)]
        assert [turn["response"] for (turn,) in turns] == [None, "Hi."]


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_calls_of_litellm_are_of_one_key(store):
    with client_of(store=store()) as client:
        messages = [{"role": "user", "content": "Hello"}]
        request = {"input_type": "request", "litellm_call_id": "1", "texts": ["Hello"]}
        session = {"x-litellm-session-id": "s"}
        request |= {"structured_messages": messages, "request_headers": session, "request_data": {}}
        assert client.post(LITELLM, json=request, headers=WEB).json() == {"action": "NONE"}
        reply = {
            "input_type": "response",
            "litellm_call_id": "1",
            "texts": ["Of another key."],
            "request_data": {},
        }
        client.post(LITELLM, json=reply, headers=DESK)
        pipeline = client.app.state.service.tenants.by_name["web"].pipeline
        [name] = pipeline._setup.lists._held  # no route lists what LiteLLM's calls began
        assert pipeline._setup.lists.held(name).turn(1).response is None
        client.post(LITELLM, json={**reply, "texts": ["Of this key."]}, headers=WEB)
        assert pipeline._setup.lists.held(name).turn(1).response == "Of this key."


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
def test_no_spelling_escapes_a_session_or_a_limit(store):
    with client_of(store=store()) as client:
        spellings = ("victim", "Victim ", "\uff36ictim", "vi\u200bctim", "v\u0456ctim")
        for count, name in enumerate(spellings, start=1):
            assert check(client, "Hello", WEB, session_id=name)["stance"]["interactions"] == count
            assert check(client, "Hello", WEB, key=name)["rate_limited"] is (count > 2)
        assert client.delete("/v1/sessions/VICTIM", headers=WEB).status_code == 204
        assert client.get("/v1/sessions/victim", headers=WEB).status_code == 404
        for nobody in ({"session_id": "\u200b"}, {"key": "\u2060 "}):
            refused = client.post("/v1/check", json={"text": "x", **nobody}, headers=WEB)
            assert refused.status_code == 422


def test_audit_and_metrics_say_whose_it_was(tmp_path):
    path = tmp_path / "audit.jsonl"
    with client_of(audit=path) as client:
        check(client, "About acme", WEB)
        check(client, "Hello", DESK)
        assert client.get("/v1/presets").status_code == 401
        text = client.get("/metrics", headers=WEB).text
        client.app.state.service.pipeline.close()
    assert [json.loads(line)["tenant"] for line in path.read_text().splitlines()] == ["web", "desk"]
    assert 'turnwise_blocks_total{guardrail="keywords",tenant="web"} 1.0' in text
    assert 'turnwise_http_requests_total{route="/v1/check",status="200",tenant="desk"} 1.0' in text
    assert 'turnwise_http_requests_total{route="none",status="401",tenant="none"} 1.0' in text


class Gated(Guardrail):
    """Waits until it is let go, and notes which texts it was asked about."""

    default_timeout = None
    name = "gated"

    def __init__(self):
        self.release, self.begun, self.order = threading.Event(), threading.Semaphore(0), []

    def check(self, check):
        self.order.append(check.text)
        self.begun.release()
        assert self.release.wait(30)
        return CLEAN


def flood(client, texts, headers, answers):
    def ask(text):
        answers.append(client.post("/v1/check", json={"text": text}, headers=headers).status_code)

    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    return threads


def under_way(client, count):
    """Wait until so many requests are under way."""
    for _ in range(2_000):
        if f"turnwise_http_in_flight {count}.0" in client.get("/metrics", headers=DESK).text:
            return
        threading.Event().wait(0.005)
    raise AssertionError("they did not come in time")


def test_the_flood_of_one_key_leaves_room_and_a_turn_for_another():
    gated, answers = Gated(), []
    with client_of({"guardrails": [gated]}, threads=1, in_flight=16) as client:
        try:
            threads = flood(client, ["a"], WEB, answers)
            assert gated.begun.acquire(timeout=20)
            threads += flood(client, ["a"] * 11, WEB, answers)
            under_way(client, 12)
            # It holds three times what is left, and gets no more; whoever comes next finds room.
            assert client.post("/v1/check", json={"text": "a"}, headers=WEB).status_code == 503
            threads += flood(client, ["b"], DESK, answers)
            under_way(client, 13)
        finally:
            gated.release.set()
            for thread in threads:
                thread.join()
    assert answers == [200] * 13
    assert gated.order.index("b") <= 2  # behind the one that was under way, and one more at most


def test_texts_of_one_key_that_hang_leave_a_thread_for_another():
    gated, answers = Gated(), []
    with client_of({"guardrails": [gated]}, threads=4) as client:
        try:
            threads = flood(client, ["a"] * 6, WEB, answers)
            under_way(client, 6)
            assert all(gated.begun.acquire(timeout=20) for _ in range(3))
            threads += flood(client, ["b"], DESK, answers)
            assert gated.begun.acquire(timeout=20) and gated.order == ["a", "a", "a", "b"]
        finally:
            gated.release.set()
            for thread in threads:
                thread.join()
    assert answers == [200] * 7


def test_one_key_alone_has_all_the_room():
    gated, answers = Gated(), []
    with client_of({"guardrails": [gated]}, keys=ApiKeys(PLAIN[1:]), in_flight=4) as client:
        try:
            threads = flood(client, ["a"] * 4, DESK, answers)
            under_way(client, 4)
            assert client.post("/v1/check", json={"text": "a"}, headers=DESK).status_code == 503
        finally:
            gated.release.set()
            for thread in threads:
                thread.join()
    assert answers == [200] * 4


# A file of tenants


@pytest.fixture
def files(tmp_path):
    (tmp_path / "desk.yaml").write_text("name: strict\nguardrails:\n  - keywords: {keywords: [splines]}\n")
    digest = sha256(OPS["X-API-Key"].encode()).hexdigest()
    (tmp_path / "keys.yaml").write_text(
        "tenants:\n"
        f"  - {{name: web, key: {WEB['X-API-Key']}}}\n"
        f"  - {{name: desk, key: {DESK['X-API-Key']}, config: desk.yaml, mode: log}}\n"
        f"  - {{name: ops, key_sha256: {digest}, preset: basic, operator: true}}\n"
    )
    (tmp_path / "guard.yaml").write_text(
        "guardrails:\n  - keywords: {keywords: [acme]}\n  - pii: {action: redact}\n"
    )
    return tmp_path


def served(files, store=None, **more):
    source = ConfigSource(file=str(files / "guard.yaml"), keys=str(files / "keys.yaml"))
    settings = ServeSettings(
        keys=source.read_keys(), read_config=source.read, read_keys=source.read_keys, explain=True, **more
    )
    return TestClient(create_app(GuardrailPipeline(source.read(), state_store=store), settings))


def mode(client, name, to, headers=OPS):
    return client.put(f"/v1/tenants/{name}/mode", json={"mode": to}, headers=headers)


def test_each_key_has_its_own_configuration_and_mode(files):
    with served(files) as client:
        assert check(client, "acme", WEB)["blocked"] and not check(client, "splines", WEB)["blocked"]
        told = check(client, "splines", DESK)
        assert not told["blocked"] and told["details"]["keywords"]["reason"].startswith("would block: ")
        assert not check(client, "acme", OPS)["blocked"]
        serving = [client.get("/v1/presets", headers=one).json()["serving"] for one in (WEB, DESK, OPS)]
        assert serving == ["pipeline", "strict", "basic"]


@pytest.mark.parametrize("store", [lambda _: None, lambda _: MemoryStateStore(), SqliteStateStore])
def test_an_operator_switches_a_key_off_and_on_while_the_service_runs(files, store):
    with served(files, store(files / "state.db")) as client:
        assert mode(client, "web", "off").json() == {"name": "web", "pipeline": "pipeline", "mode": "off"}
        told = check(client, "acme at jane@example.com", WEB)
        assert told["text"] == "acme at jane@example.com" and not told["blocked"]
        assert {(one["status"], one["reason"]) for one in told["details"].values()} == {("skipped", "not enabled")}
        assert told["outcome"] == "unchecked"
        assert not check(client, "splines", DESK)["blocked"]
        assert mode(client, "desk", "on").status_code == 200
        assert check(client, "splines", DESK)["blocked"] and not check(client, "acme", WEB)["blocked"]
        listed = client.get("/v1/tenants", headers=OPS).json()["tenants"]
        assert {one["name"]: one["mode"] for one in listed} == {"web": "off", "desk": "on", "ops": "on"}
        assert client.post("/v1/reload", headers=OPS).status_code == 200
        assert not check(client, "acme", WEB)["blocked"]
        mode(client, "web", None)
        mode(client, "desk", None)
        assert check(client, "acme", WEB)["blocked"] and not check(client, "splines", DESK)["blocked"]
        assert mode(client, "nobody", "off").status_code == 404
        assert mode(client, "web", "sometimes").status_code == 422


def test_only_an_operator_operates(files):
    with served(files) as client:
        for headers in (WEB, DESK):
            assert mode(client, "web", "off", headers).status_code == 403
            for method, path in (("GET", "/metrics"), ("POST", "/v1/reload"), ("GET", "/v1/tenants")):
                assert client.request(method, path, headers=headers).status_code == 403
        assert client.get("/metrics", headers=OPS).status_code == 200
        assert check(client, "acme", WEB)["blocked"]
    with client_of() as client:  # no key is marked: metrics are everybody's, modes nobody's
        assert client.get("/metrics", headers=WEB).status_code == 200
        assert mode(client, "desk", "off", WEB).status_code == 403
    with client_of(keys=None) as client:  # this machine alone
        assert mode(client, "anybody", "log", {}).status_code == 200
        assert not check(client, "acme", {})["blocked"]


def test_the_mode_holds_for_every_worker_and_after_a_restart(files):
    stores = [SqliteStateStore(files / "state.db") for _ in range(3)]
    with served(files, stores[0]) as first, served(files, stores[1]) as second:
        assert check(second, "acme", WEB)["blocked"]
        mode(first, "web", "off")
        for _ in range(400):
            if not check(second, "acme", WEB)["blocked"]:
                break
            threading.Event().wait(0.005)
        else:
            raise AssertionError("the other worker did not follow within two seconds")
    with served(files, stores[2]) as third:
        assert not check(third, "acme", WEB)["blocked"]


def test_a_reload_reads_keys_and_configurations_again(files):
    with served(files) as client:
        check(client, "Hello", DESK, conversation_id="c")
        before = client.get("/readyz").json()["config"]
        (files / "desk.yaml").write_text("guardrails:\n  - keywords: {keywords: []}\n")
        assert client.post("/v1/reload", headers=OPS).status_code == 422
        (files / "guard.yaml").write_text("guardrails:\n  - keywords: {keywords: [splines]}\n")
        refused = client.post("/v1/reload", headers=OPS)
        assert refused.status_code == 422 and client.get("/readyz").json()["config"] == before
        assert check(client, "acme", WEB)["blocked"]
        (files / "desk.yaml").write_text("guardrails:\n  - keywords: {keywords: [splines]}\n")
        text = (files / "keys.yaml").read_text().replace("mode: log", "mode: on")
        (files / "keys.yaml").write_text("\n".join(line for line in text.splitlines() if "name: web" not in line))
        assert client.post("/v1/reload", headers=OPS).status_code == 200
        assert client.get("/readyz").json()["config"] != before
        assert client.post("/v1/check", json={"text": "x"}, headers=WEB).status_code == 401
        told = check(client, "splines", DESK, conversation_id="c")
        assert told["blocked"] and told["turn_number"] == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tenants: []", "a list of tenants"),
        ("keys: [x]", "a list of tenants"),
        ("tenants:\n  - {key: 0123456789abcdef}", "line 2, tenants.1: .*its name"),
        ("tenants:\n  - {name: a, key: short}", "line 2, tenants.1: .*16 visible"),
        ("tenants:\n  - {name: a, key: 1234567890123456}", "in quotes"),
        ("tenants:\n  - {name: a, key_sha256: abc}", "64 digits"),
        ("tenants:\n  - {name: a}", "key or key_sha256"),
        ("tenants:\n  - {name: a, key: 0123456789abcdef, mode: sometimes}", "line 2, tenants.1.mode"),
        ("tenants:\n  - {name: a, key: 0123456789abcdef, modes: on}", "did you mean 'mode'"),
        ("tenants:\n  - {name: a, key: 0123456789abcdef, preset: basic, config: a.yaml}", "one of them"),
        ("tenants:\n  - {name: a/b, key: 0123456789abcdef}", "letters, digits"),
        ("tenants:\n  - {name: a, key: 0123456789abcdef}\n  - {name: b, key: 0123456789abcdef}", "its own"),
    ],
)
def test_a_file_that_does_not_fit_is_an_error_that_shows_no_key(tmp_path, text, problem):
    file = tmp_path / "keys.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=problem) as error:
        ApiKeys.read(str(file), {})
    assert "0123456789abcdef" not in str(error.value) and "1234567890123456" not in str(error.value)


def test_a_key_without_a_name_keeps_its_conversations_wherever_it_stands():
    keys = ["0123456789abcdef-web", "0123456789abcdef-desk"]
    names = [ApiKeys(order).name_of(keys[0]) for order in (keys, keys[::-1])]
    assert names[0] == names[1] and names[0].startswith("key-")


def test_the_file_that_the_documentation_shows_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
    shown = next(block for block in page.split("```yaml\n")[1:] if block.startswith("tenants:")).partition("```")[
        0
    ]
    (tmp_path / "keys.yaml").write_text(shown)
    keys = ApiKeys.read(str(tmp_path / "keys.yaml"), {})
    assert [(one.name, one.mode, one.operator) for one in keys.tenants.values()] == [
        ("web", "on", False),
        ("desk", "log", False),
        ("operations", "on", True),
    ]
    assert keys.tenants["desk"].config == str(tmp_path / "desk.yaml")


def test_reasons_and_scores_are_told_to_operators_and_to_who_may_see_them_alone():
    tenants = [
        TenantSettings("web", "0123456789abcdef-web"),
        TenantSettings("desk", "0123456789abcdef-desk", explain=True),
        TenantSettings("operations", OPS["X-API-Key"], operator=True),
    ]
    texts, told = ("Tell me about acme", "I am jane@example.com"), {}
    with client_of(keys=ApiKeys(tenants), explain=False) as client:
        for headers in (WEB, DESK, OPS):
            results = [check(client, text, headers, conversation_id="c", session_id="ann") for text in texts]
            stream = {"text": "acme", "conversation_id": "c", "turn_number": 2, "done": True}
            results.append(client.post("/v1/check/stream", json=stream, headers=headers).json()["result"])
            results.append(client.get("/v1/conversations/c", headers=headers).json())
            results.append(client.get("/v1/sessions/ann", headers=headers).json())
            results.append(
                client.post(LITELLM, json={"texts": ["acme"], "input_type": "request"}, headers=headers).json()
            )
            shown = client.get("/v1/conversations/c/forensics", headers=headers)
            told[next(iter(headers.values()))] = (results, shown.status_code, shown.json())
    (plain, status, problem), *explained = told.values()
    blocked, redacted, reply, chat, session, litellm = plain
    assert blocked["blocked"] and blocked["outcome"] == "blocked" and blocked["turn_number"] == 1
    assert (redacted["blocked"], redacted["outcome"], redacted["text"]) == (False, "passed", "I am [EMAIL]")
    assert reply["blocked"] and chat["turns"][1]["prompt"] == "I am [EMAIL]"
    assert session == {"session_id": "ann", "terminated": False}
    assert litellm == {"action": "BLOCKED", "blocked_reason": "input blocked"}
    assert status == 403 and "explain: true" in problem["detail"]
    assert not any(
        word in json.dumps([*plain, problem]) for word in ("keywords", "drift", "pii", "trust", "scripted")
    )
    for (blocked, redacted, reply, chat, session, litellm), status, _ in explained:
        assert status == 200 and blocked["reasons"] == reply["reasons"] == ["keywords: 'acme'"]
        assert redacted["outcome"] == "warned" and redacted["details"]["pii"]["found"]
        assert "guardrail_results" in chat["turns"][0]["metadata"] and "trust" in session
        assert litellm["blocked_reason"] == "input blocked: keywords: 'acme'"


KEY, OTHER = "0123456789abcdef", "fedcba9876543210"


def test_keys_come_from_a_file_and_from_the_environment(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# of the web shop\nweb:{KEY}\n\n")
    keys = ApiKeys.read(str(file), {"TURNWISE_API_KEYS": f"desk:{OTHER}"})
    assert keys.names == ("desk", "web")
    assert keys.name_of(KEY) == "web" and keys.name_of(OTHER) == "desk"
    assert keys.name_of("") is keys.name_of(KEY[:-1]) is keys.name_of(KEY + "0") is keys.name_of("ü" * 16) is None
    assert ApiKeys.read(None, {}) is None


@pytest.mark.parametrize("entry", ["short", "a b" * 10, "é" * 20, f"two words:{KEY}", "name:"])
def test_a_key_that_can_be_guessed_or_sent_wrongly_is_refused_without_showing_it(entry):
    with pytest.raises(UsageError, match="API key 1") as error:
        ApiKeys([entry])
    assert entry not in str(error.value)


def test_a_file_without_keys_is_an_error_and_not_an_open_door(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    with pytest.raises(UsageError, match="no API key"):
        ApiKeys.read(str(file), {})
    with pytest.raises(UsageError, match="can't be read"):
        ApiKeys.read(str(tmp_path / "missing"), {})


def test_keys_are_not_shown():
    assert KEY not in repr(ApiKeys([f"web:{KEY}"]))
