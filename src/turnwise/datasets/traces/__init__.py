"""Traces and transcripts: what a recorder kept of calls of models and tools, read as conversations."""
