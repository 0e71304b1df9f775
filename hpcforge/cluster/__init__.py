"""The resolved model: every node named and addressed, every default applied. Pure."""
