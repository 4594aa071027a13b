"""Storage of diagnostic bundles off their hosts, for the people of the cluster.

Agents upload them, people download them; the operator reads none. `kubenode diagnose` and the step
`collect` name the place.
"""
