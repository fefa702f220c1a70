"""Detectors fitted, searched and calibrated on labelled conversations."""
