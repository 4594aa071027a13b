"""The ports of components of the machine we run on.

What changes the host runs as a unit of systemd's own making, as repairs do: outside of the agent's
sandbox, and not ended by the agent's end.
"""
