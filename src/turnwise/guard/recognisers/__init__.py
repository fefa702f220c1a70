"""What guardrails find in text: one kind of thing a file, each in linear time on any input.

The functions `find_...` take a text in plain form: `lower` in lower case, `plain` with its case kept. `shapes` are
those of the module's `SHAPES` that the text has.
"""
