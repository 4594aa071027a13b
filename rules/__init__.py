"""The rule engine: turns facts into diagnoses. It reads no clock and does no I/O."""
