"""What file systems that our nodes serve hold and carry, and whether that is enough. Pure."""
