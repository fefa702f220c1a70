"""``presidio``: personal data by Microsoft Presidio, names and places among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from turnwise.errors import GuardError, UnknownNameError
from turnwise.guard.guardrail import CLEAN, Action, Check, Cost, Finding, Guardrail, On, Redaction

NO_MODEL = "none"
"""Stands for no model: only what patterns and checksums find, so neither names nor places."""


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
        """What Presidio finds, with a typed placeholder for each stretch."""
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
    """Have e-mail addresses checked against the list of domain endings that is installed.

    Left alone, Presidio asks the network for a fresh list at the first address that it meets.
    """
    endings = import_module("tldextract").TLDExtract(suffix_list_urls=())
    for recognizer in registry.recognizers:
        if recognizer.name == "EmailRecognizer":
            recognizer.validate_result = lambda address: bool(endings(address).fqdn)
