"""Components of machines, judged alike by the operator, the agent and the command line. Pure.

The package holds the wire format, the files of a component on one machine, the order of versions,
the disruption of a change and the order of changes. It has no pydantic, because the agent loads it.
"""
