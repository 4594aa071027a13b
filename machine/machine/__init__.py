"""Life of a Machine: from its observation to its phase, its conditions and one act."""
