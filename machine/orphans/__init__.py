"""Instances that carry this cluster's tag and belong to no Machine: found, and ended with care."""
