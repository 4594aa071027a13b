"""Instances that carry this cluster's tag and belong to no Machine: a finding for people."""
