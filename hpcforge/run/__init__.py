"""Below the line: asks nodes, walks the plan, admits nodes to scheduling."""
