"""Rules on a clock of our own: the production code over simulated nodes, hosts and time."""
