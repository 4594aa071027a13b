"""Debian package of the agent: `python -m agent.deb` builds it; the other files are its content."""
