"""Topics as a Spark source: options, plan, batch and stream readers."""
