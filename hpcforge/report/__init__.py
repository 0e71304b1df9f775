"""Events, plans and verdicts as text for people. Nothing below this prints."""
