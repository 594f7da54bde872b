"""Producers.

- `producer`, `transaction`: Producer and TransactionProducer
- `checks`: what is refused before anything is sent; `outgoing`: a message as a request
- `queue_choice`, `broker_faults`: choose the queue of a message
- `sending`: one attempt, and the attempts of a call; `retry`: the policy; `fast_send`: a quick first attempt
- `request_reply`: messages of request and reply; `internal`: the client's own messages
"""
