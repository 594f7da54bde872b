"""How the verdicts of Apache's filter were recorded."""
