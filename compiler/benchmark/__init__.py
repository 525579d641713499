"""Timing engines side by side, each in a process of its own."""
