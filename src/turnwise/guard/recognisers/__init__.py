"""What guardrails find in text: one kind of thing a file, each in linear time on any input."""
