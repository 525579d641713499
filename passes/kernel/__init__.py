"""Passes on the kernel level: which ops run as one kernel, and what is updated in place."""
