"""Scan: from raw logs of any size to findings, part by part, on one machine or on many."""
