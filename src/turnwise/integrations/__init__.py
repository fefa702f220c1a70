"""The guard and the detectors in other people's frameworks; each module needs the extra of its name."""
