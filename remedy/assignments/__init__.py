"""Names to each agent what it has to read, in one small object that it watches by its name."""
