"""How each kind of leaf is read against a FactSet, one module for each. All pure."""
