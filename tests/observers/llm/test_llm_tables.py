"""Specifications, settings, and the tables of providers and prices."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import turnwise
from turnwise.conversation import Side, Turn
from turnwise.errors import ObserverError, UnknownNameError, UsageError
from turnwise.observers import (
    Context,
    LlmObserver,
    LlmSettings,
    build_cost_estimator,
    build_observer,
    list_observers,
)
from turnwise.principles import load_principle

TABLES = Path(turnwise.__file__).parent / "observers" / "llm"


def parameters(argument: str, **settings: Any) -> Any:
    return build_cost_estimator(f"llm:{argument}", **settings).parameters  # type: ignore[attr-defined]


def providers(**settings: Any) -> set[str]:
    """Return the names of all providers that are known."""
    with pytest.raises(UnknownNameError) as raised:
        parameters("nobody/x", **settings)
    return set(raised.value.known)


def price(argument: str, **settings: Any) -> tuple[float, float] | None:
    """Return the US dollars per million tokens of request and reply, from two lengths of replies."""
    about = [load_principle("reciprocity")], [Turn(1, "Hello")], 1, Side.PROMPT, Context.parse("turn")
    found = build_cost_estimator(f"llm:{argument}", **settings).estimate(*about)
    if found.cost_usd is None or found.most_usd is None:
        return None
    reply = (found.most_usd - found.cost_usd) / (LlmSettings().max_tokens - found.completion_tokens)
    prompt = (found.cost_usd - reply * found.completion_tokens) / found.prompt_tokens
    return round(prompt * 1e6, 6), round(reply * 1e6, 6)


class TestSpecification:
    @pytest.mark.parametrize(
        ("argument", "provider", "model"),
        [
            ("openai/gpt-4.1-mini", "openai", "gpt-4.1-mini"),
            ("ollama/qwen3:8b", "ollama", "qwen3:8b"),
            ("openrouter/meta-llama/llama-3.3-70b", "openrouter", "meta-llama/llama-3.3-70b"),
            ("openrouter/qwen/qwen3-32b:free", "openrouter", "qwen/qwen3-32b:free"),
            ("vllm/Qwen/Qwen3-8B-AWQ", "vllm", "Qwen/Qwen3-8B-AWQ"),
        ],
    )
    def test_names_provider_and_model(self, argument, provider, model):
        named = parameters(argument)
        assert (named["provider"], named["model"]) == (provider, model)

    @pytest.mark.parametrize("argument", [None, "", "openai", "openai/", "/gpt", "openai/gpt 4", "openai/a\nb"])
    def test_without_provider_or_model_says_how_to_write_it(self, argument):
        with pytest.raises(ObserverError, match=r"such as llm:openai/gpt-4\.1-mini or llm:ollama/qwen3:8b"):
            LlmObserver(argument)

    def test_an_unknown_provider_is_named_with_what_is_near(self):
        with pytest.raises(UnknownNameError, match="unknown provider 'openia'; did you mean 'openai'") as raised:
            LlmObserver("openia/gpt-4.1")
        assert all(name in str(raised.value) for name in providers())
        assert str(raised.value).endswith(". A server of your own: llm:vllm/MODEL with --base-url")

    def test_builds_an_observer_by_its_name(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
        observer = build_observer("llm:openai/gpt-4.1-mini")
        assert isinstance(observer, LlmObserver)
        assert observer.spec == "llm:openai/gpt-4.1-mini"
        built = build_observer("llm:openai/gpt-4.1-mini", temperature=0.4)
        assert built.parameters["temperature"] == 0.4
        with pytest.raises(ObserverError, match="needs a provider and a model"):
            build_observer("llm")

    def test_is_listed_with_what_it_needs(self):
        info = {info.name: info for info in list_observers()}["llm"]
        assert (info.independent, info.deterministic, str(info.workers)) == (True, False, "threads")
        assert 'pip install "turnwise[llm]"' in info.needs
        assert len(info.contexts) == 4

    def test_without_the_sdk_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "openai", None)
        with pytest.raises(ObserverError, match=r'pip install "turnwise\[llm\]"'):
            LlmObserver("ollama/qwen3:8b")


def test_nothing_heavy_is_loaded_before_a_model_is_asked():
    code = (
        "import sys, turnwise.observers\n"
        "turnwise.observers.build_cost_estimator('llm:openai/gpt-4.1-mini').estimate\n"
        "print(*{'openai', 'pydantic', 'httpx', 'httpx2', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


class TestSettings:
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"temperature": 2.5}, "temperature must be a number from 0 to 2, not 2.5"),
            ({"temperature": float("nan")}, "temperature must be a number"),
            ({"temperature": True}, "temperature must be a number"),
            ({"max_tokens": 10}, "max_tokens must be a whole number, at least 64, not 10"),
            ({"max_tokens": 100.0}, "max_tokens must be a whole number"),
            ({"repeats": 0}, "repeats must be a whole number, at least 1, not 0"),
            ({"max_retries": -1}, "max_retries must be a whole number, at least 0"),
            ({"max_failures_in_row": -1}, "max_failures_in_row must be"),
            ({"timeout": 0}, "timeout must be a number from 0.001"),
            ({"budget_usd": -1}, "budget must be a number from 0"),
            ({"budget_usd": float("nan")}, "budget must be a number from 0"),
            ({"structured": "xml"}, "structured must be one of json_schema, json_object, none, not 'xml'"),
            ({"extra": {"messages": []}}, "leave 'messages' out of extra"),
            ({"extra": {"x": {1}}}, "use JSON values only"),
            ({"base_url": "localhost:8000"}, "base URL must look like https://host/v1"),
            ({"base_url": "ftp://host/v1"}, "base URL must look like"),
            ({"base_url": "http://"}, "base URL must look like"),
            ({"base_url": "http://host:99999999/v1"}, "base URL must look like"),
            ({"base_url": "http://ho st/v1"}, "base URL must look like"),
        ],
        ids=str,
    )
    def test_that_can_t_be_are_refused(self, wrong, message):
        with pytest.raises(UsageError) as raised:
            LlmSettings(**wrong)
        assert message in str(raised.value)

    @pytest.mark.parametrize(
        ("argument", "settings", "sent"),
        [
            (
                "openai/x",
                {},
                {"response_format": "json_schema", "max_completion_tokens": 1024, "temperature": 0.0},
            ),
            ("anthropic/x", {}, {"response_format": None, "max_tokens": 1024, "temperature": 0.0}),
            ("groq/x", {"temperature": None}, {"response_format": "json_object", "max_completion_tokens": 1024}),
            (
                "groq/x",
                {"structured": "none", "max_tokens": 99},
                {"max_completion_tokens": 99, "temperature": 0.0},
            ),
            (
                "vllm/x",
                {"extra": {"top_k": 1}},
                {"response_format": "json_schema", "max_tokens": 1024, "top_k": 1},
            ),
        ],
        ids=str,
    )
    def test_reach_the_provider_in_the_form_that_it_honours(self, server, make, score, argument, settings, sent):
        score(make(argument, **settings))
        (body,) = server.requests
        assert body["model"] == "x"
        kind = body.pop("response_format", {}).get("type")
        assert kind == sent.pop("response_format", None)
        assert sent.items() <= body.items()
        assert {"temperature", "max_tokens", "max_completion_tokens"} & set(body) - set(sent) <= {"temperature"}

    def test_the_schema_asks_for_the_reason_first_and_for_three_numbers(self, server, make, score):
        score(make())
        schema = server.requests[0]["response_format"]["json_schema"]
        assert schema["strict"] is True
        assert list(schema["schema"]["properties"]) == schema["schema"]["required"] == ["reasoning", "T", "I", "F"]
        assert schema["schema"]["additionalProperties"] is False

    def test_a_base_url_takes_the_place_of_the_provider_s(self):
        own = parameters("openai/x", base_url="http://localhost:8000/v1/")
        assert own["base_url"] == "http://localhost:8000/v1"
        assert parameters("openai/x")["base_url"] == "https://api.openai.com/v1"


class TestProviders:
    def test_those_that_ship(self):
        known = providers()
        assert {"openai", "anthropic", "gemini", "together", "groq", "openrouter", "ollama", "vllm"} <= known
        for provider in known:
            if not parameters(f"{provider}/x")["base_url"].startswith("http://localhost:"):
                assert parameters(f"{provider}/x")["base_url"].startswith("https://")
                with pytest.raises(ObserverError, match=r"environment variable [A-Z]+_API_KEY,"):
                    LlmObserver(f"{provider}/x", environ={})

    def test_a_file_adds_and_replaces(self, tmp_path, server, score):
        file = tmp_path / "mine.toml"
        file.write_text(
            f'[mine]\nbase_url = "{server.url}/"\nkey_variable = "MY_KEY"\nstructured = "json_object"\n'
            '[ollama]\nbase_url = "http://gpu:11434/v1"\n'
        )
        mine = parameters("mine/x", providers_file=file)
        assert (mine["base_url"], mine["structured"]) == (server.url, "json_object")
        server.key = "sk-123456"
        score(LlmObserver("mine/x", LlmSettings(providers_file=file), environ={"MY_KEY": "sk-123456"}))
        assert server.headers[0]["authorization"] == "Bearer sk-123456"
        assert parameters("ollama/x", providers_file=file)["base_url"] == "http://gpu:11434/v1"
        assert parameters("groq/x", providers_file=file) == parameters("groq/x")

    def test_the_user_s_own_file_is_found(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        assert "mine" not in providers()
        (tmp_path / "turnwise").mkdir()
        (tmp_path / "turnwise/providers.toml").write_text('[mine]\nbase_url = "https://llm.example/v1"\n')
        assert "mine" in providers()

    def test_the_user_s_own_file_lies_below_home_where_nothing_else_is_said(self, tmp_path, monkeypatch):
        monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".config/turnwise").mkdir(parents=True)
        (tmp_path / ".config/turnwise/providers.toml").write_text('[mine]\nbase_url = "https://llm.example/v1"\n')
        assert "mine" in providers()
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "elsewhere"))
        assert "mine" not in providers()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[mine\n", "is not valid TOML"),
            ("mine = 3\n", r"\[mine\] must be a table with base_url"),
            ('[mine]\nurl = "https://x/v1"\n', r"\[mine\] has no key 'url'; known: base_url"),
            ("[mine]\n", r"\[mine\] base_url must look like https://host/v1"),
            ("[mine]\nbase_url = 3\n", "base_url must be text"),
            ('[mine]\nbase_url = "https://x/v1"\nkey_optional = "yes"\n', "key_optional must be true or false"),
            ('[mine]\nbase_url = "https://x/v1"\nstructured = "xml"\n', "structured must be one of json_schema"),
            ('[mine]\nbase_url = "https://x/v1"\ntoken_limit = "n"\n', "token_limit must be one of max_tokens"),
            ('["my own"]\nbase_url = "https://x/v1"\n', "the name of a provider has letters"),
        ],
    )
    def test_a_file_that_is_wrong_says_where(self, tmp_path, text, message):
        file = tmp_path / "mine.toml"
        file.write_text(text)
        with pytest.raises(ObserverError, match=message) as raised:
            parameters("openai/x", providers_file=file)
        assert str(file) in str(raised.value)

    def test_a_file_that_is_named_has_to_be_there(self, tmp_path):
        with pytest.raises(ObserverError, match=r"can't read .*nowhere\.toml: No such file"):
            parameters("openai/x", providers_file=tmp_path / "nowhere.toml")


class TestPrices:
    def test_those_that_ship_are_dated_and_of_known_providers(self):
        known = providers()
        assert price("openai/gpt-4.1-mini") == (0.40, 1.60)
        for name in tomllib.loads((TABLES / "prices.toml").read_text()):
            assert name.partition("/")[0] in known
            as_of = build_cost_estimator(f"llm:{name}").price_as_of
            assert as_of is not None and date(2025, 1, 1) <= as_of <= date(2030, 1, 1)
            prompt, reply = price(name) or (-1, -1)
            assert 0 <= prompt <= reply

    def test_a_dated_name_has_the_price_of_its_model_and_another_model_has_not(self):
        for name in ("gpt-4.1-mini-2025-04-14", "gpt-4.1-mini-latest"):
            assert price(f"openai/{name}") == (0.40, 1.60)
        assert price("anthropic/claude-haiku-4-5-20251001") == (1.0, 5.0)
        for name in ("gpt-4.1-mini-turbo", "gpt-4", "gpt-4.1-mini-2025-04-14x", "gpt-4.1-mini-1234567", "*"):
            assert price(f"openai/{name}") is None
        assert price("ollama/whatever:7b") == (0.0, 0.0)

    def test_a_file_overrides(self, tmp_path):
        file = tmp_path / "prices.toml"
        file.write_text(
            '["openai/gpt-4.1-mini"]\ninput = 9\noutput = 10.5\nas_of = 2026-01-02\n'
            '["groq/*"]\ninput = 0.5\noutput = 0.5\nas_of = 2026-01-02\n'
        )
        assert price("openai/gpt-4.1-mini", prices_file=file) == (9, 10.5)
        assert price("groq/anything", prices_file=file, budget_usd=1) == (0.5, 0.5)
        assert price("openai/gpt-4.1", prices_file=file) == price("openai/gpt-4.1")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('["openai/x"]\ninput = 1\noutput = -1\nas_of = 2026-01-01\n', "output must be US dollars"),
            ('["openai/x"]\ninput = "1"\noutput = 1\nas_of = 2026-01-01\n', "input must be US dollars"),
            ('["openai/x"]\ninput = inf\noutput = 1\nas_of = 2026-01-01\n', "input must be US dollars"),
            ('["openai/x"]\ninput = 1\noutput = 1\n', "as_of must be the day of the price"),
            ('["openai/x"]\ninput = 1\noutput = 1\nas_of = "today"\n', "as_of must be the day"),
            ("[x]\ninput = 1\noutput = 1\nas_of = 2026-01-01\n", "must be named after provider and model"),
        ],
    )
    def test_a_file_that_is_wrong_says_where(self, tmp_path, text, message):
        file = tmp_path / "prices.toml"
        file.write_text(text)
        with pytest.raises(ObserverError, match=message):
            parameters("openai/x", prices_file=file)
