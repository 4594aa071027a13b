"""What differs on the host from what was applied, and how often it was put right."""
