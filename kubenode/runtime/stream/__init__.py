"""The stream: what happens to jobs and permits, as CloudEvents for a store outside the cluster."""
