"""The statistics of a study: intervals, tests, thresholds, power. Pure: they read verdicts, never a store."""
