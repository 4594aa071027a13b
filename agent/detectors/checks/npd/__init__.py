"""node-problem-detector's custom-plugin-monitor files, read as they are."""
