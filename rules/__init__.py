"""The rule engine: facts in, diagnoses out. It reads no clock, opens nothing, performs nothing."""
