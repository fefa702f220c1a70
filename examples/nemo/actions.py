"""The action of the rails: a pipeline, and the conversations that it judges turn by turn."""

from typing import Any

from nemoguardrails.actions import action
from nemoguardrails.actions.rail_outcome import RailOutcome, TransformTarget

from turnwise import GuardrailPipeline
from turnwise.integrations import ConversationFinder

# Personal data is redacted; a second turn that is over the line blocks, and the first one alone does not.
PIPELINE = GuardrailPipeline(
    {
        "guardrails": [
            {"pii": {"action": "redact"}},
            {"drift": {"observer": "local", "detector": "count_flags:k=2"}},
        ]
    }
)
CHATS = ConversationFinder(PIPELINE)


@action(is_system_action=True)
async def turnwise_check(text: str, side: str, context: dict[str, Any]) -> RailOutcome:
    """Check a prompt or a reply as the next one of its conversation, which the caller names."""
    chat = CHATS.of(context["conversation_id"], list)  # without a name the rail fails, and NeMo blocks
    if side == "input":
        result = await PIPELINE.acheck_input(text, conversation=chat)
    else:
        result = await PIPELINE.acheck_output(text, conversation=chat)
    if result.blocked:
        return RailOutcome.block(reason="; ".join(result.reasons), metadata={"turn": result.turn_number})
    if result.text != text:
        target = TransformTarget.USER_MESSAGE if side == "input" else TransformTarget.BOT_MESSAGE
        return RailOutcome.transform([(target, result.text)])
    return RailOutcome.allow()
