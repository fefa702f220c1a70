"""Lists of messages: which conversation a list continues, what of it is checked, what a model may be sent."""
