"""The ports of the machine we run on.

What needs more rights than the agent has runs as a unit of systemd's own making, with the host's
own tools and only the capabilities that it needs: so it also works from a container, has its end by
systemd when it is late, and is not ended by the agent's end.
"""
