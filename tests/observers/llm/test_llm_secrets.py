"""The key reaches the provider and nothing else: no log, error, reply, row, setting or repr holds it."""

from __future__ import annotations

import base64
import copy
import logging
import pickle
import traceback

import pytest
from chat_server import FATAL_FAULTS, FAULTS

from turnwise.errors import ObserverError, TurnwiseError, UsageError
from turnwise.observers.llm import LlmObserver, LlmSettings, MemoryJournal
from turnwise.observers.llm.secret import Secret


def chain(error: BaseException) -> list[BaseException]:
    """Return an error with all that hangs on it."""
    found = []
    todo = [error]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += [other for other in (one.__cause__, one.__context__) if other is not None and other not in found]
    return found


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


class TestSecret:
    def test_shows_its_source_alone(self, key):
        secret = Secret(key, "MY_KEY")
        assert repr(secret) == str(secret) == f"{secret}" == "Secret(MY_KEY)"
        assert secret.reveal() == key

    def test_is_not_pickled_or_copied(self, key):
        for way in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError, match="a key is not pickled"):
                way(Secret(key, "MY_KEY"))

    def test_hides_any_credential_of_a_header(self, key):
        secret = Secret(key, "MY_KEY")
        assert secret.hide(f"{key}, {key}") == "[key], [key]"
        assert secret.hide("authorization: bearer sk-somebody-else's") == "authorization: bearer [key]'s"
        assert secret.hide("nothing to hide") == "nothing to hide"

    def test_a_placeholder_is_no_secret(self):
        assert Secret("none", "MY_KEY").hide("none of it") == "none of it"
