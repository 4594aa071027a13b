"""Insight: a store of the stream of all clusters, and analyses of what the fleet has lived through.

It reads events alone, and no cluster. It needs the extra kubenode[insight].
"""
