"""``turnwise prompt``: the messages that a language model would be sent."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli import options
from turnwise.cli.output import say, say_text


def prompt(
    principle: Annotated[
        str, typer.Argument(help="Principle by name, or the folder of your own.", show_default=False)
    ],
    sequence: Annotated[str, typer.Option("--sequence", help="Id of the sequence.", show_default=False)],
    turn: Annotated[int, typer.Option(help="Number of the turn that is judged.", min=1, show_default=False)],
    side: Annotated[str, typer.Option(help="Half of the turn that is judged: prompt or response.")] = "prompt",
    context: Annotated[
        str, typer.Option(help="What the model may see: turn, window:k, history, transcript.")
    ] = "history",
    store: options.Store = options.DEFAULT_STORE,
    json: options.Json = False,
) -> None:
    """Print the exact messages that would be sent to a language model for one score. Sends nothing."""
    from turnwise.cli.arguments import read_side
    from turnwise.cli.output import print_json
    from turnwise.observers import Context
    from turnwise.observers.llm import fresh_nonce, prompt_version, render
    from turnwise.principles import load_principle
    from turnwise.store import Store

    judged = load_principle(principle)
    half, seen = read_side(side), Context.parse(context)
    with Store(store) as opened:
        turns = list(opened.sequence(sequence).conversation)
    texts = (text for one in turns for text in (one.prompt, one.response) if text is not None)
    nonce = fresh_nonce(texts)
    messages = render(judged, turns, turn, half, seen, nonce)
    if json:
        print_json(
            {
                "principle": judged.name,
                "prompt_version": prompt_version(judged),
                "context": str(seen),
                "nonce": nonce,
                "messages": [message._asdict() for message in messages],
            }
        )
        return
    for message in messages:
        say(f"--- {message.role} ---")
        say_text(message.content)
        say("")
