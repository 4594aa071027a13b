"""Bootstrap tokens of Machines: how a host without an identity gets its first certificate."""
