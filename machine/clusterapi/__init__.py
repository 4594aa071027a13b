"""Adoption of Cluster API Machines for components and repair. Cluster API creates and deletes
hosts.
"""
