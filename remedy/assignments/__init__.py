"""Assignments of agents: one small object for each agent names all that it must read."""
