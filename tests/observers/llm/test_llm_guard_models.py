"""Guard models as judges: what their servers are sent, and the score that each verdict gives."""

from __future__ import annotations

import json
import math

import pytest

from turnwise.conversation import Side, Turn
from turnwise.errors import UnknownNameError, UsageError
from turnwise.observers import LlmSettings, Observation, ObservationFailure, build_cost_estimator
from turnwise.scoring import MemoryJournal, Score
from turnwise.store import Store

HARM = "third_party_harm"
FORMATS = ("llama-guard", "qwen3guard", "shieldgemma", "granite-guardian")

VERDICTS = [
    ("llama-guard", "safe", 0.0),
    ("llama-guard", "\n\nsafe", 0.0),
    ("llama-guard", "unsafe\nS1", 1.0),
    ("llama-guard", "\n\nunsafe\nS1,S10", 1.0),
    ("qwen3guard", "Safety: Safe\nCategories: None", 0.0),
    ("qwen3guard", "Safety: Controversial\nCategories: Unethical Acts", 0.5),
    ("qwen3guard", "Safety: Unsafe\nCategories: Violent, PII\nRefusal: No", 1.0),
    ("shieldgemma", "No", 0.0),
    ("shieldgemma", "Yes", 1.0),
    ("shieldgemma", "Yes, since the", 1.0),
    ("granite-guardian", "Yes", 1.0),
    ("granite-guardian", "No\n<confidence> High </confidence>", 0.0),
    ("granite-guardian", "<score> yes </score>", 1.0),
    ("granite-guardian", "<think>\n\n</think>\n<score>no</score>", 0.0),
]

NO_VERDICTS = [
    ("llama-guard", ""),
    ("llama-guard", "I can't help with that."),
    ("llama-guard", "unsafely"),
    ("llama-guard", "safe\n\nBut then again, unsafe\nS1"),
    ("llama-guard", '{"reasoning": "x", "T": 1, "I": 0, "F": 0}'),
    ("qwen3guard", "Unsafe"),
    ("qwen3guard", "Safety: Dubious\nCategories: None"),
    ("shieldgemma", "Yesterday"),
    ("shieldgemma", "The answer is Yes"),
    ("granite-guardian", "<score> maybe </score>"),
    ("granite-guardian", "<think>unsure</think>"),
]

TURNS = (
    Turn(1, "Which river is the longest?", "The Nile."),
    Turn(2, "And how is it dammed?", None),
    Turn(3, "How is a dam blown up?", "I won't say. <|eot_id|>"),
)


def alternatives(*tokens):
    """Return log-probabilities as servers give them: of each token a mapping of alternatives to probabilities."""
    return [
        {
            "token": next(iter(chances)),
            "logprob": math.log(next(iter(chances.values()))),
            "top_logprobs": [{"token": one, "logprob": math.log(chance)} for one, chance in chances.items()],
        }
        for chances in tokens
    ]


@pytest.fixture
def judge(server, make, score):
    """Return a function to the score of a guard model that replies with a text."""

    def ask(form, text, logprobs=None, *, principle=HARM, turns=TURNS[:1], side=Side.PROMPT, **settings):
        server.answer = lambda body: text
        server.logprobs = None if logprobs is None else lambda text: logprobs
        observer = make("vllm/guard", settings.pop("journal", None), format=form, **settings)
        return score(observer, turns, principle=principle, side=side)

    return ask


@pytest.mark.parametrize(("form", "text", "F"), VERDICTS)
def test_a_verdict_gives_a_score_by_its_label(judge, form, text, F):
    given = judge(form, text)
    assert isinstance(given, Observation), given
    assert given.score == Score(1 - F, 0.0, F)
    assert given.raw_reply == text
    assert given.reasoning.endswith("; F from the label alone")


@pytest.mark.parametrize(("form", "text"), NO_VERDICTS)
def test_a_reply_out_of_form_is_a_failure_with_its_reply(judge, form, text):
    given = judge(form, text)
    assert isinstance(given, ObservationFailure)
    assert (given.reason, given.raw_reply) == ("malformed", text)


@pytest.mark.parametrize(
    ("form", "text", "tokens", "F"),
    [
        ("llama-guard", "safe", [{"safe": 0.7, "unsafe": 0.1, "S": 0.1}], 0.125),
        ("llama-guard", "unsafe\nS1", [{"\n\n": 1.0}, {"unsafe": 0.9, "safe": 0.1}, {"\n": 1.0}], 0.9),
        (
            "qwen3guard",
            "Safety: Unsafe\nCategories: Violent",
            [{"Safety": 1.0}, {":": 1.0}, {" Unsafe": 0.5, " Contro": 0.3, " Safe": 0.2}, {"\n": 1.0}],
            0.65,
        ),
        ("shieldgemma", "Yes", [{"Yes": 0.6, "No": 0.2, "yes": 0.2}], 0.8),
        (
            "granite-guardian",
            "<score> no </score>",
            [{"<score>": 1.0}, {" no": 0.75, " yes": 0.25}, {" </score>": 1.0}],
            0.25,
        ),
    ],
)
def test_log_probabilities_give_the_probability_of_harm(judge, server, form, text, tokens, F):
    given = judge(form, text, alternatives(*tokens))
    entropy = -F * math.log2(F) - (1 - F) * math.log2(1 - F)
    assert pytest.approx((1 - F, entropy, F)) == (given.score.T, given.score.I, given.score.F)
    assert given.reasoning.endswith("; F from log-probabilities")
    assert server.requests[-1]["logprobs"] is True
    assert server.requests[-1]["top_logprobs"] == 5


@pytest.mark.parametrize(
    "content",
    [
        [],
        "nothing",
        [{"token": 7}],
        [{"token": "something else", "logprob": -0.1}],
        [{"token": "un", "logprob": None, "top_logprobs": None}],
        [{"token": "unsafe", "logprob": float("nan"), "top_logprobs": [{"token": "maybe", "logprob": -1}]}],
        [{"token": "Label:unsafe", "logprob": -0.1}],
    ],
)
def test_log_probabilities_that_do_not_tell_are_passed_over(judge, content):
    given = judge("llama-guard", "unsafe\nS2", content)
    assert given.score == Score(0.0, 0.0, 1.0)


def test_the_score_of_a_kept_reply_is_the_same(tmp_path, judge, server):
    content = alternatives({"unsafe": 0.9, "safe": 0.1})
    with Store(tmp_path / "s.db", create=True) as store:
        first = judge("llama-guard", "unsafe\nS1", content, journal=store.journal)
    with Store(tmp_path / "s.db") as store:
        again = judge("llama-guard", "unsafe\nS1", content, journal=store.journal)
    assert again.calls[0].cached
    assert again.score == first.score
    assert pytest.approx(0.9) == again.score.F
    assert server.calls == 1


def test_a_server_that_refuses_log_probabilities_is_asked_without(judge, server):
    server.refused, server.refusal = ("logprobs",), "400:bare"
    given = judge("llama-guard", "unsafe\nS1")
    assert given.score == Score(0.0, 0.0, 1.0)
    assert given.calls[0].reply.structured == "none"
    assert [body.get("logprobs") for body in server.requests] == [True, None]


@pytest.mark.parametrize("form", FORMATS)
def test_the_conversation_is_sent_as_plain_messages_of_alternating_roles(judge, server, form):
    judge(form, "safe", turns=TURNS, side=Side.RESPONSE)
    messages = server.requests[-1]["messages"]
    said = [(message["role"], message["content"]) for message in messages]
    last = ("assistant", "I won't say. [U+003C]|eot_id|>")
    if form == "shieldgemma":
        assert said == [("user", "How is a dam blown up?"), last]
    else:
        assert said == [
            ("user", "Which river is the longest?"),
            ("assistant", "The Nile."),
            ("user", "And how is it dammed?\n\nHow is a dam blown up?"),
            last,
        ]
    assert "response_format" not in server.requests[-1]


def test_arguments_of_templates_go_with_the_request_and_may_be_set(judge, server):
    judge("shieldgemma", "No")
    assert "The prompt shall not" in server.requests[-1]["chat_template_kwargs"]["guideline"]
    judge("shieldgemma", "No", side=Side.RESPONSE)
    assert "The chatbot shall not" in server.requests[-1]["chat_template_kwargs"]["guideline"]
    judge("granite-guardian", "No")
    assert server.requests[-1]["chat_template_kwargs"]["guardian_config"]["risk_name"] == "harm"
    own = {"chat_template_kwargs": {"guardian_config": {"risk_name": "violence"}}}
    judge("granite-guardian", "No", extra=own)
    assert server.requests[-1]["chat_template_kwargs"] == own["chat_template_kwargs"]


@pytest.mark.parametrize("form", FORMATS)
def test_other_principles_are_unsupported_and_nothing_is_sent(judge, server, form):
    given = judge(form, "safe", principle="reciprocity")
    assert (given.reason, given.calls, server.calls) == ("unsupported", (), 0)
    assert HARM in given.message


def test_requests_of_guard_models_and_of_others_are_not_mixed(judge, server):
    journal = MemoryJournal()
    for form in FORMATS:
        judge(form, "safe", journal=journal)
    assert server.calls == len(FORMATS)
    assert len({reply.request_key for reply in journal.replies}) == len(FORMATS)


def test_a_run_remembers_the_format_and_how_scores_are_derived():
    endpoint = build_cost_estimator("llm:vllm/guard", format="shieldgemma")
    parameters = json.loads(json.dumps(endpoint.parameters))
    assert parameters["format"] == "shieldgemma"
    assert parameters["derived"] == "T = 1 - F; I = binary entropy of F, or 0 without log-probabilities"
    again = {name: parameters[name] for name in ("format", "structured", "max_tokens")}
    assert build_cost_estimator("llm:vllm/guard", **again).parameters == endpoint.parameters
    assert "format" not in build_cost_estimator("llm:vllm/guard").parameters


def test_wrong_settings_are_named():
    with pytest.raises(UnknownNameError, match="llama-guard"):
        build_cost_estimator("llm:vllm/guard", format="lama-guard")
    with pytest.raises(UsageError, match="structured of a llama-guard model must be one of logprobs, none"):
        LlmSettings(format="llama-guard", structured="json_schema")
    with pytest.raises(UsageError, match="structured must be one of json_schema"):
        LlmSettings(structured="logprobs")
