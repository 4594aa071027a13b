"""Whether the services that make a host a node answer, and whether they keep falling over."""
