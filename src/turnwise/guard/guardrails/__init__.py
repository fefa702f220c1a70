"""The guardrails that ship with turnwise, a file each."""
