"""What the depot serves: files and wheels that the blueprint names, fetched once and checked."""
