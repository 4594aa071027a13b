"""N machines of one template: made, given up in order, replaced when they are unhealthy."""
