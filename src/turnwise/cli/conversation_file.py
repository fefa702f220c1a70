"""One conversation from a file or standard input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from turnwise.errors import ConversationError

if TYPE_CHECKING:
    from turnwise.conversation import Conversation


def read_conversation(file: str) -> Conversation:
    """Return the conversation of a JSON file in any form that turnwise reads, or of standard input for ``-``.

    Raises:
        ConversationError: it can't be read.
    """
    from turnwise.bounded import read_json
    from turnwise.conversation import from_any
    from turnwise.paths import to_path

    where = "standard input" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else to_path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConversationError(f"can't read {where}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConversationError(f"{where} is not UTF-8 text: {error}") from error
    try:
        return from_any(read_json(text))
    except ConversationError as error:
        raise ConversationError(f"{where}: {error}") from error
    except ValueError as error:
        raise ConversationError(f"{where} is no JSON: {error}; give one conversation") from error
