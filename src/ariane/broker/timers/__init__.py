"""Delivery at any time: `wheel` (pending deliveries by time), `timed_message` (the properties that ask for it),
`timers` (reads, delivers, cancels and rolls forward)."""
