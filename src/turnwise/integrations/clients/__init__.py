"""What guarded clients of model packages share: calls, replies, streams."""
