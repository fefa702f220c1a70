"""The embedded observer: a small language model that reads conversations."""
