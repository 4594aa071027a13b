"""The agent as a Debian package: `python -m agent.deb` builds it, the rest is what it ships."""
