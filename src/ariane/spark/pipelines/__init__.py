"""The pipelines: archive, replay, analyse, and the operators' views lag, dlq and trace; functions over a session."""
