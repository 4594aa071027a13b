"""Releases: a payload that goes through the stages of a pipeline, cluster by cluster."""
