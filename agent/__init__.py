"""Kube Node Agent: executes repairs and observes one host.

It watches the jobs of its own node, executes the steps that name it at most once, and answers in
the job's status. It decides nothing. `agent.actions` is the fixed catalogue of repairs; whether one
is executed is decided by the operator and Kube Defender. It runs on every node, so it is small: it
needs aiohttp, msgspec and dbus-fast, and none of the operators' packages.
"""
