"""Passes that work at every level: `canonicalize`, `cse`, `dce`."""
