"""Passes on the memref level: workspaces, offsets in the arena, and the verifier and summary of the plan."""
