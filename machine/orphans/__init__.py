"""Orphans: instances with this cluster's tag and without a Machine, reported to people."""
