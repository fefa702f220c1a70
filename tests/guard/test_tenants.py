"""Pipelines of several tenants share a state store, an audit and an observer, and know nothing of each other."""

import json

import pytest

from turnwise import Conversation, GuardrailPipeline
from turnwise.cli import main
from turnwise.errors import GuardError
from turnwise.guard import MemoryStateStore, SqliteStateStore, build_guardrail, check_state_store, read_audit
from turnwise.sessions import SESSION

CONFIG = {
    "session_by": "initiator",
    "rate_limits": {"per_key": {"minute": 1}},
    "guardrails": [{"drift": {"observer": "scripted:0.95"}}, "pii"],
}
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("store", [lambda _: None, lambda _: MemoryStateStore(), SqliteStateStore])
def test_tenants_of_one_store_know_nothing_of_each_other(store, tmp_path):
    whole = GuardrailPipeline(CONFIG, state_store=store(tmp_path / "state.db"))
    web, desk = whole.for_tenant("web"), whole.for_tenant("desk")

    def ask(pipeline):
        return pipeline.check_input("Hello", conversation=Conversation.human_ai("ann", "m"), key="ann")

    for pipeline in (web, desk, whole):
        result = ask(pipeline)
        assert result.stance.interactions == 1 and not result.rate_limited
        assert ask(pipeline).rate_limited
    said = [pipeline.check_messages(HELLO, conversation_id="chat") for pipeline in (web, desk)]
    assert [one.recorded for one in said] == [False, False]
    # A place of another tenant is no place.
    reply = {"role": "assistant", "content": "Hi."}
    assert web.check_messages([reply], after=said[0].place).conversation_id == "chat"
    assert whole.check_messages([reply], after=said[0].place).conversation_id != "chat"
    if whole.state_store is not None:
        assert [web.load_conversation("chat").get_turn_count(), whole.find_conversation("chat")] == [1, None]
        assert len([key for key in whole.state_store.keys(SESSION) if key.startswith("web/")]) >= 1
    assert web.forget_conversation("chat") and not web.forget_conversation("chat")
    assert desk.check_messages(HELLO, conversation_id="chat").recorded
    assert web.forget("ann") and web.session("ann").stance is None
    assert desk.session("ann").stance.interactions == whole.session("ann").stance.interactions == 1
    assert ask(desk).rate_limited and not ask(web).rate_limited


def test_a_tenants_part_keeps_the_contract_of_a_store():
    def make(**bounds):
        whole = GuardrailPipeline(CONFIG, state_store=MemoryStateStore(**bounds))
        return whole.for_tenant("web").state_store

    check_state_store(make)


def test_the_audit_of_all_says_whose_check_it_was(tmp_path):
    path, own = tmp_path / "audit.jsonl", tmp_path / "own.jsonl"
    with GuardrailPipeline(CONFIG, audit=path) as whole:
        desk = whole.for_tenant("desk", {"guardrails": ["pii"], "audit": {"path": str(own)}})
        whole.for_tenant("web").check_input("Hello")
        whole.for_tenant("web").close()  # which leaves the audit of all open
        desk.check_input("Hello")
        whole.check_input("Hello")
        desk.close()
    assert [event.get("tenant") for event in read_audit(path).events] == ["web", None]
    assert [event["tenant"] for event in read_audit(own).events] == ["desk"]


def test_a_reload_goes_on_with_what_is_shared(tmp_path):
    first, second = tmp_path / "1.db", tmp_path / "2.db"
    with GuardrailPipeline({**CONFIG, "state": {"sqlite": str(first), "when_down": "open"}}) as whole:
        web = whole.for_tenant("web", {"guardrails": ["pii"]})
        chat = Conversation(conversation_id="chat")
        web.check_input("Hello", conversation=chat)
        assert web.state_status().when_down == "open"  # as the store's owner says
        web.reload({"guardrails": ["secrets"]})
        assert web.check_input("Hello", conversation=chat).turn_number == 2
        whole.reload({**CONFIG, "state": {"sqlite": str(second)}})
        web.reload({"guardrails": ["secrets"]})
        assert web.find_conversation("chat") is None
        whole.reload(CONFIG)
        web.reload({"guardrails": ["secrets"]})
        assert web.state_store is None and whole.state_store is None


@pytest.mark.parametrize("name", ["", "a/b", "a b", "\u0430dmin", "-"])
def test_the_name_of_a_tenant_can_be_part_of_a_key(name):
    with pytest.raises(GuardError, match="the tenant's name"):
        GuardrailPipeline(CONFIG).for_tenant(name)


def test_sessions_of_an_object_are_not_shared():
    whole = GuardrailPipeline({"guardrails": [build_guardrail("drift", observer="scripted:0.1")]})
    with pytest.raises(GuardError, match="give its name"):
        whole.for_tenant("web")


BLOCKING = {
    "max_characters": 60,
    "on_unread": "block",
    "rate_limits": {"everyone": {"minute": 1}},
    "guardrails": [
        {"keywords": {"keywords": ["acme"], "action": "block", "on": "all"}},
        {"pii": {"action": "redact", "on": "all"}},
        {"drift": {"observer": "scripted:0.95"}},
    ],
}


@pytest.mark.parametrize("store", [lambda: None, MemoryStateStore])
@pytest.mark.parametrize("mode", ["log", "off"])
def test_nothing_is_stopped_or_replaced_in_another_mode_and_results_say_so(mode, store, tmp_path):
    path = tmp_path / "audit.jsonl"
    with GuardrailPipeline(BLOCKING, state_store=store(), audit=path) as pipeline:
        pipeline.set_mode(mode)
        chat = Conversation()
        text = "Write to acme at jane@example.com"
        results = [
            pipeline.check_input(text, conversation=chat),
            pipeline.check_tool_call("mail", '{"to": "jane@example.com"}', conversation=chat, call_id="c"),
            pipeline.check_tool_result("acme", conversation=chat, call_id="c"),
            pipeline.check_output(text, conversation=chat),
            pipeline.check_input("acme " * 20, conversation=chat),
        ]
        picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
        results.append(pipeline.check_messages([picture]))
        with pipeline.stream_output() as stream:
            shown = "".join(stream.guard([text, " and " + "more " * 20]))
        assert shown == text + " and " + "more " * 20
        results.append(stream.result)
        for result in results:
            assert not (result.blocked or result.reasons or result.warnings or result.rate_limited)
            assert result.details and not any(detail.redactions for detail in result.details.values())
        assert chat.turn(1).prompt == chat.turn(1).response == text == results[0].text
        assert results[4].text == "acme " * 20
        assert "would block: failed: " in results[5].details["unread"].reason
        rails = {name: results[0].details[name] for name in ("keywords", "pii", "drift")}
        if mode == "off":
            assert {(one.status, one.reason) for one in rails.values()} == {("skipped", "not enabled")}
            assert {result.outcome for result in results} == {"unchecked"}
        else:
            assert "would block" in results[4].details["too_long"].reason
            assert rails["keywords"].reason.startswith("would block: ")
            assert rails["pii"].reason.startswith("would redact: ")
            assert {one.action for one in rails.values()} == {"log"}
            assert pipeline.session(chat.conversation_id).stance.interactions >= 1
        pipeline.reload(BLOCKING)
        assert pipeline.mode == mode
        pipeline.set_mode("on")
        assert pipeline.check_input(text).blocked
        assert pipeline.check_input(text).rate_limited
    written = read_audit(path).events
    assert len(written) == len(results) + 2
    if mode == "off":
        assert {event["outcome"] for event in written[:-2]} == {"unchecked"}
        told = [event["guardrails"]["keywords"] for event in written[:4]]
        assert {(one["status"], one["reason"]) for one in told} == {("skipped", "not enabled")}


def test_a_store_that_is_down_stops_nothing_in_another_mode(tmp_path):
    store = SqliteStateStore(tmp_path / "state.db")
    pipeline = GuardrailPipeline(CONFIG, state_store=store)
    store.close()
    chat = Conversation()
    assert pipeline.check_input("Hello", conversation=chat).blocked
    for mode in ("off", "log"):
        pipeline.set_mode(mode)
        result = pipeline.check_input("Hello", conversation=chat)
        assert not result.blocked and result.details["state"].reason.startswith("would block: failed: StateError")


def test_a_mode_is_one_of_three():
    with pytest.raises(GuardError, match="use on, off, log"):
        GuardrailPipeline(CONFIG).set_mode("none")


def test_a_guardrail_that_is_switched_off_stays_so_in_every_mode():
    pipeline = GuardrailPipeline(BLOCKING)
    pipeline.disable("keywords")
    for mode in ("log", "off", "on"):
        pipeline.set_mode(mode)
        assert pipeline.check_input("acme").details["keywords"].reason == "not enabled"


def test_sessions_of_a_tenant_on_the_command_line(tmp_path, capsys):
    path = str(tmp_path / "state.db")
    with SqliteStateStore(path) as store:
        whole = GuardrailPipeline(CONFIG, state_store=store)
        for tenant in ("web", "desk"):
            whole.for_tenant(tenant).check_input("Hello", Conversation.human_ai("ann", "m"), key="ann")

    def run(*words):
        with pytest.raises(SystemExit) as done:
            main(["guard", "sessions", *words, "--state", path, "--json"])
        return done.value.code or json.loads(capsys.readouterr().out)

    assert {row["guardrail"] for row in run()} == {"web/drift", "desk/drift"}
    assert [one["guardrail"] for one in run("ANN", "--tenant", "web")["memories"]] == ["drift"]
    with pytest.raises(SystemExit):
        main(["guard", "forget", " Ann", "--state", path, "--tenant", "web", "--json"])
    receipt = json.loads(capsys.readouterr().out)
    assert (receipt["sessions"], receipt["conversations"], receipt["limits"]) == (1, 1, 1)
    assert run("ann", "--tenant", "web") == 2
    assert run("ann", "--tenant", "desk")["memories"]
