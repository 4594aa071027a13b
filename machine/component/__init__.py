"""Status of MachineComponents, and their protection while they are in use."""
