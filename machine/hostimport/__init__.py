"""Import of a host as a Machine: checks before it, what is installed, and its progress."""
