"""Traces and transcripts as conversations.

The rows of formats are in `otel`, `services` and `transcripts`; they read records as `steps`, with `messages` in
OpenAI's shape. `loader` groups steps on disk, and `threads` puts those of a conversation together.
"""
