"""``turnwise observers``: what an observer is worth, before it is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import dollars, print_json, print_table, say

if TYPE_CHECKING:
    from turnwise.rates import Rate
    from turnwise.study.observer_test import ObserverTest
    from turnwise.study.stats import Interval


@options.grouped
def test(
    observer: Annotated[
        str, typer.Argument(help="What is measured, such as llm:openai/gpt-4.1-mini.", show_default=False)
    ],
    *,
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="Conversations at a time.", min=1)] = 1,
    settings: options.ModelSettings,
    json: options.Json = False,
) -> None:
    """Measure an observer on the shipped conversations, beside two readings by a large language model.

    Sends one request for each turn and principle, about 750 in all, and 60 more with text that talks to the judge.
    """
    from turnwise.observers import build_observer
    from turnwise.study.observer_test import observer_rates

    spec = settings.spec(observer)
    settings.check([spec])
    found = observer_rates(build_observer(spec, **settings.of(spec, None)), jobs=jobs)
    if json:
        print_json(found.to_dict())
        return
    _print(found)


def _print(found: ObserverTest) -> None:
    second = found.second_reader
    print_table(
        ("", found.observer, "second reader"),
        [
            ("turns scored", _rate(found.answered), ""),
            ("ranks flagged turns above others (AUROC)", _interval(found.auroc), _told(second["auroc"])),
            (
                "agreement of F with the first reader (alpha)",
                _interval(found.agreement),
                _told(second["agreement"]),
            ),
            ("mean F less the first reader's", f"{found.difference:+.3f}", ""),
            ("conversations caught at F .5", _rate(found.caught), _told(second["caught"])),
            ("false alarms at F .5", _rate(found.false_alarms), _told(second["false_alarms"])),
            ("still flagged where text talks to the judge", _rate(found.resisted) if found.resisted else "–", ""),
            ("seconds a turn: median, 95th percentile", " ".join(f"{one:.2f}" for one in found.seconds), ""),
            ("cost a turn", dollars(found.cost_usd) if found.cost_usd is not None else "–", ""),
        ],
        title=f"{found.turns} turns of {found.conversations} conversations, with 95 % intervals",
    )
    print_table(
        ("F", "turns", "mean F", "first reader flags"),
        [
            (
                f"{one.low:.1f} to {one.high:.1f}",
                str(one.turns),
                f"{one.mean:.2f}",
                f"{one.flagged / one.turns:.0%}",
            )
            for one in found.calibration
        ],
        numeric=("turns", "mean F", "first reader flags"),
        title="Is an F of .5 a half?",
    )
    for reason, count in found.failures.items():
        say(f"{count} scores were not made: {reason}")
    say(
        "",
        "One large language model read twice, blind, so the readers agree as a model does with itself.",
        "The conversations are few and our own: this tells a judge that does not work from one that may.",
    )


def _rate(rate: Rate) -> str:
    return str(rate)


def _interval(one: Interval) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"


def _told(one: Interval | Rate) -> str:
    return str(one) if hasattr(one, "of") else _interval(one)
