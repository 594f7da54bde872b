"""`ariane plan`: what a load needs. `model` computes it from measured costs, `command` shows it."""
