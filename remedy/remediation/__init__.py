"""Repairs that Cluster API's MachineHealthChecks ask for: told to the rules, which decide."""
