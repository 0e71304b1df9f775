"""The machine that hpcforge runs on: its programs, processes, memory, folders and package sources."""
