"""What an application tells about itself while it runs: metrics, health and logs."""
