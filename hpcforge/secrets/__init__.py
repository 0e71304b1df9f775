"""A site's secrets: the file that holds them, certificates, and where they go."""
