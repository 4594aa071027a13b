"""Status of MachineClasses: validation, hash and count."""
