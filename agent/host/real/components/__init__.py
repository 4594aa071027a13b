"""Implementations of the components' ports for this machine.

Changes of the host run as transient units of systemd, as repairs do: outside the agent's sandbox,
and surviving a restart of the agent.
"""
