"""Store folders as a Spark source, read without a broker."""
