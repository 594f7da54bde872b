"""Transactional messages: half messages, their end by the producer, and the check of undecided ones."""
