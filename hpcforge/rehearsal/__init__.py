"""Stand-ins and omissions of a rehearsal on one machine: rules over a `Cluster`. Pure."""
