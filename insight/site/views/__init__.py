"""What each page shows: one module for each. They read the store and build values for templates."""
