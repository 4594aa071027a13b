"""Captain: member clusters, and releases over them. Runs in one cluster, for all others."""
