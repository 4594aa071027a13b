"""State of the fleet at a glance: which nodes have a fault, what is done, what a person must do.

Pure: the dashboard and the command line read the cluster and print the same summary.
"""
