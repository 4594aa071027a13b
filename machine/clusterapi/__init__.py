"""Machines of Cluster API, adopted for components and repair; who made them makes and ends them."""
