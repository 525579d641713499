"""mlopt: a readable compiler for neural-network inference."""
