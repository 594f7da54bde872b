"""What an application tells about itself while it runs: figures, metrics, health, spans and logs."""
