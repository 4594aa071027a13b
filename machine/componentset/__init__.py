"""Rollouts of components: a MachineComponentSet moves its machines in batches."""
