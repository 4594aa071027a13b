"""Where diagnostic bundles of hosts are kept: off the host, for the people of the cluster.

Agents hand them in, people fetch them; the operator reads none. `kubenode diagnose` and the step
`collect` name the place.
"""
