"""`ariane up`, `namesrv`, `broker` and `filterserver`; several instances; what a start checks of its host."""
