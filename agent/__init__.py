"""Kube Node Agent: the hands on a host.

It watches the jobs of its own node, does the steps that name it, once, and answers in their
status. It decides nothing: what may be done is a fixed catalogue (`agent.actions`), whether it is
done is the operator's and Kube Defender's. It is small because it runs everywhere: aiohttp,
msgspec and dbus-fast, and never the packages of the operators.
"""
