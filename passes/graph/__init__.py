"""Passes on the graph level, and the canonicalization patterns of its operations."""
