"""External remediation: Cluster API's MachineHealthChecks request repairs, and rules decide."""
