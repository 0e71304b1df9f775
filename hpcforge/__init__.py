"""hpcforge: from a blueprint to a GPU cluster that has proved it can train."""

__version__ = "0.2.0"
