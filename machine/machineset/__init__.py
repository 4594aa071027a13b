"""MachineSets: Machines of one template, created, scaled in order, and replaced if unhealthy."""
