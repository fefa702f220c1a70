"""Around the detectors: protocol, registry, specifications, base classes, and the conformance kit."""
