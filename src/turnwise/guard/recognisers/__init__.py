"""What guardrails find in text: values, phrases and what hides them, each in linear time on any input.

A function `find_...` takes a `TextReading`: the text in plain form, with the way back to its offsets, the shapes
that it has of all that recognisers ask for, and its rows of digits. Names and patterns stand in YAML files.
"""
