"""What each page shows: pure functions from a Scene to plain view models."""
