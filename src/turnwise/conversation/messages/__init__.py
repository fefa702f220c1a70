"""Messages of other formats to turns and back: OpenAI (with Anthropic's parts) and ShareGPT."""
