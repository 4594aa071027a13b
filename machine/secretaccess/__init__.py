"""Rights of agents on the Secrets of their own components."""
