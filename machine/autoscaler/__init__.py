"""Node groups for Cluster Autoscaler: MachineSets behind its externalgrpc provider."""
