"""The views in the order of the navigation, one module each, which is imported when its view is first opened."""

from typing import Final

from turnwise.explorer.pages import View

VIEWS: Final = (
    View(
        "/",
        "Inbox",
        "inbox",
        keys={
            "j, k": "next, previous conversation",
            "c, x, u, r": "confirm, dismiss, unsure, read; then the next",
            "a, n": "assign it, write a note",
            "z": "undo",
            "s": "choose it for an action on several",
            "Enter": "open the conversation",
        },
    ),
    View("/overview", "Overview", "overview"),
    View("/sequences", "Sequences", "sequences"),
    View("/runs", "Runs compared", "runs_compared"),
    View("/sequence", "Sequence", "sequence", listed=False, keys={"j, k": "next, previous turn"}),
    View("/query", "Query", "query", keys={"Tab": "take the completion that is offered"}),
    View("/compare", "Compare", "compare"),
    View("/study", "Study", "study"),
    View(
        "/label",
        "Label",
        "label",
        keys={
            "1, 2, 3": "attack, benign, can't tell; then the next",
            "t": "it turned at the chosen turn",
            "s, z": "skip, take the last answer back",
        },
    ),
    View("/guard", "Guard", "guard"),
)
