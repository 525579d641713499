"""The dialects of mlopt: `graph` and `kernel`, and `mlopt` with the attributes that every level shares."""
