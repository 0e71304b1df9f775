"""What the depot serves: files that the blueprint names, fetched once and checked."""
