"""Contents of the pages: pure functions from a Scene to view models."""
