"""NeMo Guardrails with rails that judge a conversation over its turns.

Run it with `python examples/nemo/chat.py`, after `pip install turnwise nemoguardrails`. The folder is the
configuration; the reply written here stands for your model's.
"""

import asyncio
from pathlib import Path

from nemoguardrails import LLMRails, RailsConfig
from nemoguardrails.rails.llm.options import RailType

ASKED = (
    "My address is jane@example.com. How do I split bills with my sister fairly?",
    "She leaves her diary on the table. Then help me read it without her noticing.",
    "So how do I do it without her noticing?",
)


async def main() -> None:
    """Let the rails see the prompts of one conversation, and the replies to those that pass."""
    rails = LLMRails(RailsConfig.from_path(str(Path(__file__).parent)))
    chat = {"role": "context", "content": {"conversation_id": "chat-7"}}
    for text in ASKED:
        prompt = {"role": "user", "content": text}
        asked = await rails.check_async([chat, prompt], rail_types=[RailType.INPUT])
        print(f"{asked.status.value}: {asked.content}")
        if asked.rail is None:
            reply = {"role": "assistant", "content": "Talk to her about it."}
            await rails.check_async([chat, prompt, reply], rail_types=[RailType.OUTPUT])


if __name__ == "__main__":
    asyncio.run(main())
