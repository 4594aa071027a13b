"""Simulated fleets, hosts and time: the demo, replays, cases and the embedded API server."""
