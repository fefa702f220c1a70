"""What is no detector: protocol, registry, specifications, base classes, and the conformance kit."""
