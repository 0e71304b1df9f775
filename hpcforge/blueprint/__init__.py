"""Blueprints and inventories: YAML read with positions, the schema, and every error of a file in one pass. Pure."""
