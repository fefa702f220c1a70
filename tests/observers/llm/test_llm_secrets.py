"""The key reaches the provider and nothing else: no log, error, reply, row, setting or repr holds it."""

from __future__ import annotations

import base64
import functools
import html
import json
import logging
import re
import traceback
from urllib.parse import unquote

import pytest
from chat_server import FATAL_FAULTS, FAULTS

from turnwise.errors import ObserverError, TurnwiseError, UsageError
from turnwise.observers import LlmObserver, LlmSettings
from turnwise.scoring import MemoryJournal
from turnwise.store import Store


def chain(error: BaseException) -> list[BaseException]:
    """Return an error with all that hangs on it."""
    found = []
    todo = [error]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += [other for other in (one.__cause__, one.__context__) if other is not None and other not in found]
    return found


ESCAPES = [
    str,
    lambda mark: f"\\u{ord(mark):04x}",
    lambda mark: f"\\u{ord(mark):04X}" if mark.isalpha() else mark,
    lambda mark: f"%{ord(mark):02X}",
    lambda mark: f"&#{ord(mark)};",
]
"""Ways in which a server may write a character."""


def decodings(text: str) -> str:
    """Return a text and all that comes of decoding it again and again, one below the other."""
    found = [text]
    for _ in range(6):
        text = html.unescape(unquote(text))
        found.append(text)
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), text)
        found.append(text)
        found.append(text.replace("\\/", "/").replace("\\\\", "\\"))
    return "\n".join(found)


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_planted_key_is_found_nowhere(server, make, score, key, caplog, capfd, fault):
    server.slow = 0.0
    server.plan(*[fault] * 3)
    if fault is None:  # a server that answers with the header that it was sent
        server.answer = lambda body: (
            f'{{"reasoning": "you sent Bearer {key} or {base64.b64encode(key.encode()).decode()}", '
            '"T": 1, "I": 0, "F": 0}'
        )
    journal = MemoryJournal()
    observer = make(journal=journal, max_retries=1)
    shown = []
    with caplog.at_level(logging.DEBUG):
        try:
            shown.append(score(observer))
        except TurnwiseError as error:
            assert fault in {*FATAL_FAULTS, "redirect"}
            for one in chain(error):
                shown += [one, one.args, vars(one), traceback.format_exception(one)]
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    shown += [journal.replies, observer, observer.parameters, observer.info, observer.endpoint, observer._calls]
    shown += [caplog.text, *capfd.readouterr()]
    for one in shown:
        assert key not in f"{one} {one!r}"
        assert base64.b64encode(key.encode()).decode() not in f"{one!r}"


@pytest.mark.parametrize("escape", ESCAPES[1:])
@pytest.mark.parametrize("fault", [None, "refusal", "401", "400", "400:list", "500", "502:html", "gateway_401"])
def test_a_key_that_comes_back_escaped_is_neither_stored_nor_shown(
    server, make, score, key, tmp_path, fault, escape
):
    disguised = "".join(map(escape, key))
    answer = {"reasoning": f"you sent {disguised}", "T": 1, "I": 0, "F": 0}
    twice = json.dumps(answer).replace("\\\\", "\\")  # escaped in the model's own JSON
    server.answer = lambda body: twice
    # Wherever the server says the key itself, it is escaped in the JSON of the server.
    said = {b'"gpt-4.1-mini-2025-01-01"': f'"{key}"', b'"stop"': f'"{key}"', b"I will": key, b"Bad": key}
    server.rewrite = lambda content: functools.reduce(
        lambda done, pair: done.replace(pair[0], pair[1].encode()), said.items(), content
    ).replace(key.encode(), disguised.encode())
    server.plan(fault)
    path = tmp_path / "work.db"
    with Store(path, create=True) as store:
        try:
            shown = repr(score(make(journal=store.journal, max_retries=0)))
        except TurnwiseError as error:
            shown = str(error)
    assert disguised.encode() in b"".join(server.sent)
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("work.db*")).decode("latin-1")
    for text in (shown, stored):
        assert key not in decodings(text)


def test_a_key_is_hidden_before_a_message_is_cut_short(server, make, score, key):
    server.plan("400")
    server.rewrite = lambda content: content.replace(b"This request", b"z" * 290 + key.encode())
    message = score(make(structured="none")).message
    assert "zzz[key]" in message
    assert key[:6] not in message


def test_the_key_is_hidden_in_what_the_provider_says(server, make, score, key):
    server.plan("401")
    with pytest.raises(ObserverError, match=r"authorization=Bearer \[key\]"):
        score(make())


def test_nothing_of_the_environment_goes_to_other_providers(server, make, score, monkeypatch):
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, f"of-the-environment-{name}")
    score(make("groq/llama-3.3-70b-versatile"))
    server.key = None
    score(make("ollama/qwen3:8b"))
    assert server.calls == 2
    assert "of-the-environment" not in str(server.headers)


def test_a_server_without_key_is_sent_none(server, make, score, key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server.key = None
    score(make("ollama/qwen3:8b"))
    assert key not in str(server.headers)


@pytest.mark.parametrize("value", ["", "  \n"])
def test_a_missing_key_is_told_by_the_name_of_its_variable(value):
    with pytest.raises(ObserverError, match=r"llm:groq/x needs a key: .* variable GROQ_API_KEY, .*export GROQ"):
        LlmObserver("groq/x", environ={"GROQ_API_KEY": value, "OPENAI_API_KEY": "sk-other"})


def test_a_key_that_can_be_none_is_not_told(key):
    with pytest.raises(ObserverError, match="OPENAI_API_KEY holds characters") as raised:
        LlmObserver("openai/x", environ={"OPENAI_API_KEY": f"{key}\nX-Other: 1"})
    assert key not in "".join(traceback.format_exception(raised.value))


def test_a_key_with_space_around_it_is_taken(server, score, key):
    observer = LlmObserver("openai/x", LlmSettings(base_url=server.url), environ={"OPENAI_API_KEY": f" {key}\n"})
    score(observer)
    assert server.headers[0]["authorization"] == f"Bearer {key}"


@pytest.mark.parametrize(
    "url", ["https://user:{}@host/v1", "https://{}@host/v1", "https://host/v1?key={}", "https://host/v1#{}"]
)
def test_a_base_url_that_carries_a_key_is_refused_without_showing_it(url, key):
    with pytest.raises(UsageError, match="base URL of host carries a user name, password, query") as raised:
        LlmSettings(base_url=url.format(key))
    assert key not in str(raised.value)


def test_a_provider_file_with_a_key_in_it_is_refused_without_showing_it(tmp_path, key):
    file = tmp_path / "providers.toml"
    file.write_text(f'[mine]\nbase_url = "https://host/v1"\nkey_variable = "{key}"\n')
    with pytest.raises(ObserverError, match="must be the name of an environment variable, not a key") as raised:
        LlmObserver("mine/x", LlmSettings(providers_file=file))
    assert key not in str(raised.value)
