"""Which conversation a list of messages is of: a chain of digests, and what a store knows of each."""
