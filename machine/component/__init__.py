"""What is said of MachineComponents, and how they are kept while they are in use."""
