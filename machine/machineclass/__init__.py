"""How a provider makes machines: checked, hashed, counted."""
