"""Implementations of the ports for this machine.

Work that needs more rights than the agent has runs as a transient unit of systemd, with the host's
own tools and only the capabilities that it needs. It therefore also works from a container, systemd
ends it when it is late, and it survives a restart of the agent.
"""
