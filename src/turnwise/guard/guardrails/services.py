"""``presidio`` and ``openai_moderation``: what analysers and services of others say of a text."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from turnwise._support.secret import Secret
from turnwise.errors import GuardError, TurnwiseError, UnknownNameError
from turnwise.guard.finding import CLEAN, Action, Cost, Finding, On, Redaction
from turnwise.guard.guardrail import Check, Guardrail
from turnwise.observers.llm.settings import check_url

NO_MODEL = "none"  # stands for no model: only what patterns and checksums find, so neither names nor places


@dataclass(frozen=True)
class Presidio(Guardrail):
    """Personal data that Presidio finds: by patterns and checksums, and names and places by a spaCy model.

    Source: https://microsoft.github.io/presidio/. Nothing is downloaded; the model must be installed.

    Args:
        entities: kinds to look for, such as ``PERSON``; all that Presidio knows where empty.
        language: code of the language, such as ``en``.
        score_threshold: score from which a find counts, in [0, 1].
        model: name of an installed spaCy model; ``none`` to go without.

    Raises:
        GuardError: the extra or the model is not installed, or a setting that can't be.
        UnknownNameError: no entity of that name.
    """

    entities: tuple[str, ...] = ()
    language: str = "en"
    score_threshold: float = 0.5
    model: str = "en_core_web_lg"
    _analyzer: Any = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.MODEL
    redacts: ClassVar[bool] = True
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_action: ClassVar[Action] = Action.REDACT

    def __post_init__(self) -> None:
        if not 0.0 <= self.score_threshold <= 1.0:
            raise GuardError(f"presidio: score_threshold is {self.score_threshold!r}; use a number in [0, 1]")
        analyzer = _analyzer(self.model, self.language)
        known = analyzer.get_supported_entities(language=self.language)
        for entity in self.entities:
            if entity not in known:
                raise UnknownNameError("presidio entity", entity, known)
        object.__setattr__(self, "_analyzer", analyzer)

    def check(self, check: Check) -> Finding:
        found = self._analyzer.analyze(
            text=check.text,
            language=self.language,
            entities=list(self.entities) or None,
            score_threshold=self.score_threshold,
        )
        if not found:
            return CLEAN
        kinds = sorted({one.entity_type for one in found})
        stretches = sorted(_apart(found), key=lambda one: one.start)
        return Finding(
            True,
            f"found {', '.join(kinds)}",
            min(1.0, max(one.score for one in found)),
            redactions=tuple(Redaction(one.start, one.end, one.entity_type.lower()) for one in stretches),
            data={"entities": kinds},
        )


def _apart(found: list[Any]) -> list[Any]:
    """The finds that stay where finds overlap: the surer one, of two equally sure ones the longer."""
    kept: list[Any] = []
    for one in sorted(found, key=lambda find: (-find.score, find.start - find.end, find.start)):
        if one.start < one.end and all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)
    return kept


def _analyzer(model: str, language: str) -> Any:
    try:
        presidio = import_module("presidio_analyzer")
        engines = import_module("presidio_analyzer.nlp_engine")
        spacy = import_module("spacy")
    except ImportError as error:
        raise GuardError('presidio needs packages of its own: pip install "turnwise[presidio]"') from error
    if model == NO_MODEL:
        engine = engines.SpacyNlpEngine(models=[{"lang_code": language, "model_name": "blank"}])
        try:
            engine.nlp = {language: spacy.blank(language)}
        except ImportError as error:
            raise GuardError(f"presidio: spaCy knows no language {language!r}; use a code such as en") from error
    else:
        if find_spec(model) is None:
            raise GuardError(
                f"presidio: the spaCy model {model} is not installed: python -m spacy download {model}; or set "
                f"model: {NO_MODEL}, to go without names and places"
            )
        engine = engines.SpacyNlpEngine(models=[{"lang_code": language, "model_name": model}])
        engine.load()
    registry = presidio.RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language], nlp_engine=None if model == NO_MODEL else engine)
    _keep_email_offline(registry)
    return presidio.AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])


def _keep_email_offline(registry: Any) -> None:
    """Check addresses by the installed list of endings; Presidio would ask the network for a fresh one."""
    endings = import_module("tldextract").TLDExtract(suffix_list_urls=())
    for recognizer in registry.recognizers:
        if recognizer.name == "EmailRecognizer":
            recognizer.validate_result = lambda address: bool(endings(address).fqdn)


KEY_VARIABLE = "OPENAI_API_KEY"


class ModerationError(TurnwiseError):
    """The moderation endpoint gave no result: the text is not checked."""


@dataclass(frozen=True)
class OpenAIModeration(Guardrail):
    """What OpenAI's moderation endpoint flags, or what scores above thresholds of your own. It needs a key.

    Source: https://platform.openai.com/docs/guides/moderation.

    Args:
        model: name of the moderation model.
        thresholds: score from which a category counts, in [0, 1], by category, such as ``violence/graphic``; None
            for none.
        flagged: whether categories without a threshold of their own count where the endpoint flags them.
        base_url: where to send requests, instead of OpenAI's own address.
        request_seconds: seconds that one request may take, above 0.
        max_retries: how often a request is sent again after a fault that may pass, at least 0.

    Raises:
        GuardError: the extra is not installed, there is no key, or a setting that can't be.
        UnknownNameError: no category of that name.
    """

    model: str = "omni-moderation-latest"
    thresholds: Mapping[str, float] | None = None
    flagged: bool = True
    base_url: str | None = None
    request_seconds: float = 5.0
    max_retries: int = 1
    _thresholds: Mapping[str, float] = field(init=False, repr=False, compare=False)
    _client: Any = field(init=False, repr=False, compare=False)
    _key: Secret = field(init=False, repr=False, compare=False)
    _openai: Any = field(init=False, repr=False, compare=False)

    cost: ClassVar[Cost] = Cost.REMOTE
    default_on: ClassVar[On | tuple[On, ...]] = On.BOTH
    default_timeout: ClassVar[float | None] = 15.0

    def __post_init__(self) -> None:
        try:
            openai = import_module("openai")
        except ImportError as error:
            raise GuardError('openai_moderation needs the openai package: pip install "turnwise[llm]"') from error
        object.__setattr__(self, "_thresholds", dict(self.thresholds or {}))
        self._check_settings(openai)
        key = Secret(os.environ.get(KEY_VARIABLE, ""), KEY_VARIABLE)
        if not key.reveal():
            raise GuardError(
                f"openai_moderation needs a key: put it into the environment variable {KEY_VARIABLE}, for example "
                f"with `export {KEY_VARIABLE}=...`"
            )
        client = openai.OpenAI(
            api_key=key.reveal(),
            base_url=self.base_url,
            timeout=self.request_seconds,
            max_retries=self.max_retries,
        )
        weakref.finalize(self, client.close)  # nobody has to close a guardrail; its connections end with it
        object.__setattr__(self, "_openai", openai)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "_client", client)

    def _check_settings(self, openai: Any) -> None:
        fields = openai.types.moderation.Categories.model_fields
        categories = [one.alias or name for name, one in fields.items()]
        for name, threshold in self._thresholds.items():
            if name not in categories:
                raise UnknownNameError("moderation category", name, categories)
            if not 0.0 <= threshold <= 1.0:
                raise GuardError(f"openai_moderation: the threshold of {name} is {threshold!r}; use one in [0, 1]")
        if not self.flagged and not self._thresholds:
            raise GuardError(
                "openai_moderation: flagged is false and there are no thresholds; give thresholds, or set flagged"
            )
        if self.request_seconds <= 0 or self.max_retries < 0:
            raise GuardError("openai_moderation: request_seconds must be above 0, max_retries at least 0")
        if self.base_url is not None:
            check_url(self.base_url, "openai_moderation: base_url")

    def check(self, check: Check) -> Finding:
        if not check.text.strip():
            return Finding(False)
        flags, scores = self._result(check.text)
        found = {name: scores[name] for name in sorted(flags | scores.keys()) if self._counts(name, flags, scores)}
        if not found:
            return Finding(False, confidence=max(scores.values(), default=0.0))
        gravest = sorted(found, key=lambda name: (-found[name], name))
        return Finding(True, f"flagged for {', '.join(gravest)}", max(found.values()), data={"scores": {**found}})

    def _counts(self, name: str, flags: set[str], scores: Mapping[str, float]) -> bool:
        if name in self._thresholds:
            return scores[name] >= self._thresholds[name]
        return self.flagged and name in flags

    def _result(self, text: str) -> tuple[set[str], dict[str, float]]:
        """Ask the endpoint: the categories that it flags, and the score of each category."""
        answer = self._ask(text)
        if isinstance(answer, ModerationError):
            raise answer  # out here, so that it drags along no request with its headers
        try:
            (result,) = json.loads(answer)["results"]
            flags = {name for name, flag in result["categories"].items() if flag is True}
            given = result["category_scores"].items()
            scores = {name: float(score) for name, score in given if score is not None}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModerationError(f"openai_moderation: the answer can't be read ({error!r})") from None
        missing = sorted((flags | self._thresholds.keys()) - scores.keys())
        if missing or not all(0.0 <= score <= 1.0 for score in scores.values()):
            what = f"has no score for {missing[0]}" if missing else "holds a score outside [0, 1]"
            raise ModerationError(f"openai_moderation: the answer {what}; model {self.model} may not support it")
        return flags, scores

    def _ask(self, text: str) -> bytes | ModerationError:
        """The body of the answer as it came: what a server adds or leaves out can't break the SDK."""
        cleaned = text.encode("utf-8", "replace").decode()
        try:
            response = self._client.moderations.with_raw_response.create(model=self.model, input=cleaned)
            body: bytes = response.content
        except self._openai.OpenAIError as error:
            return ModerationError(self._key.hide(f"openai_moderation: {type(error).__name__}: {error}"))
        return body
