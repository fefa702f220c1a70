"""Which conversation a list of messages belongs to: a chain of digests, and what a store knows of each."""
