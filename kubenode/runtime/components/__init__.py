"""Components of machines, as the operator, the agent and the command line all judge them. Pure.

What is on the wire, what a component looks like on one machine, how versions follow one another,
how much a change disturbs, and in which order changes go. No pydantic: the agent loads it too.
"""
