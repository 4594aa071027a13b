"""Reads each kind of leaf against a FactSet, in one module for each. All pure."""
