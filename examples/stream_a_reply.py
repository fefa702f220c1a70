"""Show a reply while it comes, and nothing of it that must not be seen.

Run it with `python examples/stream_a_reply.py`.
"""

from collections.abc import Iterator

from turnwise import Conversation, GuardrailPipeline

PIPELINE = {"guardrails": [{"pii": {"action": "redact"}}, {"keywords": {"keywords": ["Project Heron"]}}]}


def pieces(text: str) -> Iterator[str]:
    """Stand for the stream of your model: a few characters at a time."""
    for at in range(0, len(text), 5):
        yield text[at : at + 5]


def show(pipeline: GuardrailPipeline, reply: str) -> None:
    """Stream one reply to a new conversation, and say how it ended."""
    chat = Conversation.human_ai("user_123", "some-model")
    pipeline.check_input("Who can help me?", conversation=chat)
    with pipeline.stream_output(chat) as stream:
        for text in stream.guard(pieces(reply)):
            print(text, end="", flush=True)
    print(f"\n-> blocked: {stream.result.blocked} {'; '.join(stream.result.reasons)}".rstrip())


def main() -> None:
    """Stream a reply with an address in it, and one that goes wrong in the middle."""
    pipeline = GuardrailPipeline(PIPELINE)
    show(pipeline, "Write to jane@example.com, she knows all about it. " + "Anything else that you need? " * 10)
    show(pipeline, "Gladly. " * 40 + "By the way, Project Heron is late. " + "Don't tell anybody. " * 20)


if __name__ == "__main__":
    main()
