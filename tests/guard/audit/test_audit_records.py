"""What is written of a check, and what is not."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest

from turnwise.conversation import Conversation
from turnwise.errors import GuardError
from turnwise.guard import (
    GUARDRAILS,
    AuditQuestion,
    AuditSettings,
    Check,
    Finding,
    Guardrail,
    GuardrailPipeline,
    guardrail,
    read_audit,
)

Records = Callable[[], list[dict[str, Any]]]
Make = Callable[..., GuardrailPipeline]

SSN, MAIL = "123-45-6789", "bob@example.com"
SAID = f"My SSN is {SSN}, write to {MAIL}."


@dataclass(frozen=True)
class Careless(Guardrail):
    """A user's own guardrail that puts into reason and data what it should not."""

    default_timeout: ClassVar[float | None] = None

    def check(self, check: Check) -> Finding:
        """Repeat what was said."""
        odd = {"nested": [{SSN: check.text}], "number": float("nan"), "when": {1, 2}, "what": object()}
        return Finding(True, f"said {check.text}", 0.5, data=odd)


class Broken(Guardrail):
    """Says that it redacts, and fails."""

    redacts: ClassVar[bool] = True

    def check(self, check: Check) -> Finding:
        """Fail."""
        raise RuntimeError("no")


def test_a_check_becomes_one_record_with_everything_but_personal_data(
    make_pipeline: Make, records: Records
) -> None:
    chat = Conversation.human_ai("ann", "gpt-4", conversation_id="c1")
    with make_pipeline() as pipeline:
        result = pipeline.check_input(SAID, conversation=chat)
        pipeline.check_output("All right.", conversation=chat)
    first, second = records()
    assert result.warnings
    assert first["text"] == "My SSN is [SSN], write to [EMAIL]."
    assert first["text_sha256"] is None
    told = {
        key: first[key]
        for key in ("v", "kind", "time", "pipeline", "conversation_id", "session_id", "turn", "side", "model")
    }
    assert told == {
        "v": 1,
        "kind": "check",
        "time": "2025-06-07T08:09:10.123456+00:00",
        "pipeline": "tested",
        "conversation_id": "c1",
        "session_id": "c1",
        "turn": 1,
        "side": "input",
        "model": "gpt-4",
    }
    assert first["participants"]["initiator"] == "ann"
    assert (first["blocked"], first["warned"], first["rate_limited"]) == (False, True, False)
    assert first["warnings"] == result.warnings
    assert first["guardrails"]["pii"]["action"] == "warn"
    assert (second["side"], second["turn"], second["warned"], second["text"]) == ("output", 1, False, "All right.")
    assert second["guardrails"]["length"] == {
        "status": "evaluated",
        "seconds": second["guardrails"]["length"]["seconds"],
    }


def test_nothing_personal_is_written_wherever_it_stands(log: Path) -> None:
    config = {"guardrails": [Careless()], "session_by": "initiator", "audit": {"path": str(log)}}
    chat = Conversation(MAIL, f"bot of {MAIL}", conversation_id=f"chat-{SSN}", model_info={"model_id": MAIL})
    with GuardrailPipeline(config) as pipeline:
        pipeline.check_input(SAID, conversation=chat, key="token-4711", role="guest")
    written = log.read_text()
    assert SSN not in written
    assert MAIL not in written
    assert "token-4711" not in written
    [event] = map(json.loads, written.splitlines())
    assert event["reasons"] == ["careless: said My SSN is [SSN], write to [EMAIL]."]
    data = event["guardrails"]["careless"]["data"]
    assert data["nested"] == [{"[SSN]": "My SSN is [SSN], write to [EMAIL]."}]
    assert (data["number"], sorted(data["when"]), data["what"]) == (None, [1, 2], "object")


def test_a_name_that_is_personal_is_found_by_its_pseudonym(log: Path) -> None:
    config = {"guardrails": [Careless()], "session_by": "initiator", "audit": {"path": str(log)}}
    with GuardrailPipeline(config) as pipeline:
        pipeline.check_input("Hello", conversation=Conversation(MAIL, "bot"))
        pipeline.check_input("Hello", conversation=Conversation("eve@example.com", "bot"))
    answer = read_audit(log, AuditQuestion(session_id=MAIL))
    [event] = answer.events
    assert event["session_id"].startswith("sha256:")
    assert event["participants"]["initiator"] == event["session_id"]


def test_secrets_are_not_written_either(make_pipeline: Make, log: Path) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLQ"
    with make_pipeline() as pipeline:
        pipeline.check_input(f"aws_access_key_id = {key}")
    assert key not in log.read_text()


def test_hash_writes_no_text(make_pipeline: Make, records: Records) -> None:
    with make_pipeline(text="hash") as pipeline:
        pipeline.check_input(SAID)
    [event] = records()
    assert event["text"] is None
    assert event["text_sha256"] == sha256(SAID.encode()).hexdigest()


def test_raw_text_only_where_it_is_asked_for(make_pipeline: Make, records: Records) -> None:
    with make_pipeline(text="raw") as pipeline:
        pipeline.check_input(SAID, conversation=Conversation(MAIL, "bot"))
    [event] = records()
    assert event["text"] == SAID
    assert event["participants"]["initiator"] == MAIL


def test_what_cannot_be_searched_is_withheld(log: Path, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GUARDRAILS, "_parts", dict(GUARDRAILS._parts))
    guardrail("broken_redactor")(Broken)
    config = {"guardrails": [Careless()], "audit": {"path": str(log), "redact": ["broken_redactor"]}}
    with GuardrailPipeline(config) as pipeline:
        pipeline.check_input(SAID)
    assert SSN not in log.read_text()
    assert records()[0]["text"] == "[WITHHELD]"


def test_a_refused_prompt_has_its_hash_and_no_turn(make_pipeline: Make, records: Records) -> None:
    chat = Conversation("ann", "bot", rate_limit={"turns_per_minute": 1})
    with make_pipeline() as pipeline:
        pipeline.check_input("first", conversation=chat)
        assert pipeline.check_input(SAID, conversation=chat).rate_limited
    refused = records()[1]
    assert (refused["turn"], refused["blocked"], refused["rate_limited"], refused["text"]) == (
        None,
        True,
        True,
        None,
    )
    [event] = chat.metadata["rate_limit_events"]["latest"]
    assert refused["text_sha256"] == event["text_sha256"]


def test_half_a_surrogate_pair_is_written_in_a_form_that_files_take(make_pipeline: Make, records: Records) -> None:
    with make_pipeline() as pipeline:
        pipeline.check_input(f"a\ud800b {SSN}", conversation=Conversation("x\udc00y", "bot"))
    [event] = records()
    assert event["text"] == "a\ufffdb [SSN]"
    assert event["participants"]["initiator"] == "x\\udc00y"


def test_what_the_caller_changes_afterwards_does_not_reach_the_audit(
    make_pipeline: Make, records: Records
) -> None:
    with make_pipeline() as pipeline:
        result = pipeline.check_input(SAID)
        result.warnings.clear()
        result.details.clear()  # type: ignore[attr-defined]
    assert len(records()[0]["warnings"]) == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_the_file_is_its_owners_alone(make_pipeline: Make, log: Path) -> None:
    before = os.umask(0)
    try:
        make_pipeline().close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"path": "no/such/folder/audit.jsonl"}, "can't be written to no/such/folder/audit.jsonl: No such file"),
        ({"path": "."}, "can't be written to .: Is a directory"),
        ({"path": ""}, "name the file"),
        ({"text": "plain"}, "audit.text: use 'redacted', 'hash' or 'raw', not 'plain'"),
        ({"when_full": "wait"}, "'drop_oldest', 'drop_newest' or 'block'"),
        ({"queue": 0}, "queue is 0; use a whole number from 1 to 10000000"),
        ({"queue_characters": 0}, "queue_characters is 0"),
        ({"queue_characters": 10**13}, "use a whole number from 1 to 1000000000000"),
        ({"block_seconds": 0}, "block_seconds is 0"),
        ({"redact": []}, "name guardrails that redact"),
        ({"redact": ["pi"]}, "did you mean 'pii'"),
        ({"redact": ["length"]}, "redact: length does not redact"),
        ({"file": "x"}, "unknown key 'file'"),
        ({"sink": "store", "path": "no/such.db"}, "no folder no"),
    ],
)
def test_a_wrong_setting_is_an_error_at_start(make_pipeline: Make, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(GuardError) as raised:
        make_pipeline(**settings)
    assert said in str(raised.value)
    assert "audit" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "said"), [("keywords", "redact: keywords can't be built"), ("regex", "redact: mend regex")]
)
def test_a_redactor_that_cannot_be_built_is_an_error_at_start(log: Path, name: str, said: str) -> None:
    with pytest.raises(GuardError, match=said):
        AuditSettings(str(log), redact=(name,)).open()
