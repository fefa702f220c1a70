"""Configurations: read from YAML or a mapping, and refused with file, line, key and what is allowed."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
from guard_rails import Contains

from turnwise import GuardrailPipeline
from turnwise.errors import GuardError, PluginError, UnknownNameError
from turnwise.guard import CLEAN, GUARDRAILS, Guardrail, describe_guardrails, guardrail


@guardrail("test_config_word")
@dataclass(frozen=True)
class Word(Guardrail):
    """Finds nothing.

    Args:
        mode: how.
        words: which.
    """

    default_timeout: ClassVar[float | None] = None

    words: list[str]
    mode: Literal["whole", "part"] = "part"

    def __post_init__(self):
        if "" in self.words:
            raise GuardError("a word is empty")
        if "crash" in self.words:
            raise KeyError("crash")

    def check(self, check):
        """Find nothing."""
        return CLEAN


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "guard.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


GOOD = """
name: mine
description: A test.
short_circuit: true
session_by: initiator
rate_limits:
  everyone: {minute: 100}
  per_key: {hour: 20}
  roles: {paying: {hour: 50}}
  exempt_roles: [admin]
guardrails:
  - test_config_word:
      name: first
      words: [a, b]
      mode: whole
      on: output        # a word that older YAML takes for true
      action: warn
      on_error: allow
      timeout: 1.5
  - test_config_word: {words: [c], enabled: no}
"""


def test_everything_that_can_be_set_is_read(write):
    pipeline = GuardrailPipeline(write(GOOD))
    first, second = pipeline.steps
    assert (first.name, first.on, first.action, first.on_error, first.timeout) == (
        "first",
        ("output",),
        "warn",
        "allow",
        1.5,
    )
    assert (first.guardrail.words, first.guardrail.mode) == (["a", "b"], "whole")
    assert (second.name, second.enabled, second.action, second.timeout) == (
        "test_config_word",
        False,
        "block",
        None,
    )
    config = pipeline.config
    assert (config.name, config.short_circuit, config.session_by) == ("mine", True, "initiator")
    assert config.rate_limits.roles == {"paying": {"hour": 50}}


def test_a_mapping_says_the_same_as_a_file(write):
    import yaml

    data = yaml.safe_load(GOOD.replace("on: output", '"on": output'))
    assert GuardrailPipeline(data).steps == GuardrailPipeline(str(write(GOOD))).steps


LINE = "guard.yaml, line "


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("mode: whole", "mode: hole"),
            LINE + "15, guardrails.1.test_config_word.mode: use 'whole' or 'part'",
        ),
        (
            ("mode: whole", "mod: whole"),
            LINE + "15, guardrails.1.test_config_word.mod: unknown key 'mod'; did you mean 'mode'",
        ),
        (
            ("on: output", "on: imput"),
            LINE + "16, guardrails.1.test_config_word.on: use 'input', 'output', 'both', "
            "'tool_call', 'tool_result', 'tool_description', 'document', 'memory', 'tools', 'untrusted' or 'all'",
        ),
        (("action: warn", "action: redact"), LINE + "12, .*this guardrail can't; use block, warn or log"),
        (
            ("action: warn", "action: explode"),
            LINE + "17, .*use 'block', 'redact', 'warn' or 'log', not 'explode'",
        ),
        (("timeout: 1.5", "timeout: -1"), LINE + "12, .*timeout is -1"),
        (("timeout: 1.5", "timeout: .inf"), LINE + "12, .*timeout is inf"),
        (
            ("words: [a, b]", "words: [a, [b]]"),
            LINE + "14, guardrails.1.test_config_word.words.2: use text",
        ),
        (("words: [a, b]", "words: ['']"), LINE + "12, .*a word is empty"),
        (("words: [a, b]", "words: [crash]"), LINE + "12, .*can't be built: KeyError"),
        (("      words: [a, b]\n", ""), LINE + "12, .*missing a required argument: 'words'"),
        (
            ("- test_config_word: {", "- test_config_ward: {"),
            LINE + r"20, guardrails.2.test_config_ward: unknown guardrail",
        ),
        (
            ("session_by: initiator", "session_by: user"),
            LINE + "5, session_by: use 'conversation' or 'initiator'",
        ),
        (("hour: 20", "hour: many"), LINE + "8, rate_limits.per_key.hour: use a whole number"),
        (("hour: 20", "year: 20"), LINE + "6, rate_limits: rate limit per_key: unknown window 'year'"),
        (
            ("short_circuit: true", "max_characters: 0"),
            LINE + "4, max_characters: use a whole number of at least 1, not 0",
        ),
        (
            ("short_circuit: true", "short_circut: true"),
            LINE + "4, short_circut: unknown key 'short_circut'; did you mean 'short_circuit'",
        ),
        (("name: first", "name: test_config_word"), LINE + "20, .*two guardrails are called 'test_config_word'"),
        (("mode: whole", "mode: [whole"), LINE + r"\d+: not readable as YAML"),
        (("mode: whole", "mode: " + "[" * 1000), LINE + r"\d+: not readable as YAML: nested more than 50 levels"),
        (("mode: whole", "mode: &m [*m, *m]"), LINE + r"\d+: not readable as YAML: \*m is an alias"),
        (("hour: 20", "hour: " + "2" * 5000), LINE + "8: not readable as YAML: a whole number has 5000 digits"),
        (("mode: whole", "words: [c]"), LINE + "15: 'words' appears twice"),
    ],
)
def test_an_error_says_file_line_key_and_what_is_allowed(write, change, told):
    assert change[0] in GOOD
    with pytest.raises(GuardError, match=told):
        GuardrailPipeline(write(GOOD.replace(*change)))


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "guardrails: give a list of at least one guardrail"),
        ({"guardrails": []}, "at least one guardrail"),
        ({"guardrails": "pii"}, "at least one guardrail"),
        ({"guardrails": [3]}, "guardrails.1: a guardrail is its name"),
        ({"guardrails": [{"use": 3}]}, "guardrails.1: a guardrail is its name"),
        ({"guardrails": [{"use": Contains(), "word": "x"}]}, "is built already"),
        ({"guardrails": [Contains()], "rate_limits": 3}, "rate_limits: give a mapping"),
        ({"guardrails": [Contains()], "audit": {}}, "audit: path is missing; set it"),
        (
            {"guardrails": [Contains()], "short_circuit": "x"},
            "short_circuit: use true or false or 'costly', not 'x'",
        ),
    ],
)
def test_a_mapping_that_does_not_fit_is_an_error(config, told):
    with pytest.raises(GuardError, match=told):
        GuardrailPipeline(config)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(GuardError, match="can't be read"):
        GuardrailPipeline(tmp_path / "none.yaml")
    with pytest.raises(GuardError, match="for a preset use"):
        GuardrailPipeline("basic_")


def test_a_guardrail_of_a_package_that_is_broken_is_an_error_and_never_left_out(monkeypatch):
    def broken(name):
        raise PluginError("guardrail 'x' (package) failed to load: no module")

    monkeypatch.setattr(GUARDRAILS, "get", broken)
    with pytest.raises(GuardError, match=r"guardrails\.1: guardrail 'x' .* failed to load"):
        GuardrailPipeline({"guardrails": ["x"]})


def test_an_unknown_preset_lists_those_there_are():
    with pytest.raises(UnknownNameError, match="did you mean 'basic'"):
        GuardrailPipeline.from_preset("basik")


def test_every_guardrail_says_what_it_is_for():
    for info in describe_guardrails():
        assert info.summary.endswith("."), info


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("state", "pass state_store=, or set it in a file"),
        ("audit", "pass audit=, or"),
        ("rate_limits", "set it in a file"),
    ],
)
def test_overrides_with_a_key_of_the_configuration_say_where_it_goes(name, hint):
    with pytest.raises(UnknownNameError, match=f"unknown guardrail '{name}'.*a key of the configuration: {hint}"):
        GuardrailPipeline.from_preset("basic", overrides={name: {"sqlite": "guard.db"}})


def test_overrides_with_any_other_name_say_nothing_of_keys():
    with pytest.raises(UnknownNameError) as raised:
        GuardrailPipeline.from_preset("basic", overrides={"nonsense": {}})
    assert "key of the configuration" not in str(raised.value)


@pytest.mark.parametrize("given", [[], ["pii"], None, 7])
def test_what_is_no_configuration_is_refused_with_what_to_do(given):
    with pytest.raises(GuardError, match=r"not (list|NoneType|int); for guardrails alone use \{'guardrails'"):
        GuardrailPipeline(given)
