"""`ariane pipeline`: the commands, their live display, tables of results, and errors of Spark in one sentence."""
