"""Builder of the agent's packages, `python -m agent.packages`, and their content."""
