"""Peers' side of the bench: each file runs by itself in an environment that has the peer, without turnwise."""
