"""Keep sessions and conversations over a restart, and the same for all workers of a machine.

Run it with `python examples/remember_over_restarts.py`; the file it writes is in a temporary folder.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from turnwise import Conversation, GuardrailPipeline
from turnwise.guard import SqliteStateStore

CONFIG = {
    "session_by": "initiator",
    "guardrails": ["pii", {"drift": {"observer": "local-small", "breaker": "block"}}],
}
"""`session_by: initiator` makes a session of everything that one person says, in any conversation."""


def before(file: Path) -> None:
    """Stand for the process that was there first."""
    with SqliteStateStore(file) as store:
        pipeline = GuardrailPipeline(CONFIG, state_store=store)
        chat = Conversation.human_ai("user_123", "some-model", conversation_id="chat-7")
        pipeline.check_input("How do splines work?", conversation=chat)
        pipeline.check_output("They join polynomials smoothly.", conversation=chat)


def after(file: Path) -> None:
    """Stand for the one that takes over: another worker, or the same after a restart."""
    with SqliteStateStore(file) as store:
        pipeline = GuardrailPipeline(CONFIG, state_store=store)
        chat = pipeline.load_conversation("chat-7")
        result = pipeline.check_input("And cubic ones?", conversation=chat)
        session = pipeline.session("user_123")
        print(f"turn {result.turn_number} of {chat.conversation_id}, {result.stance.interactions} in the session")
        print(f"trust {session.trust:.2f}, stance {result.stance.mode}: {result.stance.rationale}")
        receipt = pipeline.forget("user_123")
        print(f"forgotten on request: {receipt.sessions} session, {receipt.conversations} conversation")


def main() -> None:
    """Check a turn, end, and go on."""
    with TemporaryDirectory() as folder:
        before(Path(folder, "guard.db"))
        after(Path(folder, "guard.db"))


if __name__ == "__main__":
    main()
