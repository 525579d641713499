"""Execution: what every op means (graph and kernel level), and the numpy engine on the memref level."""
