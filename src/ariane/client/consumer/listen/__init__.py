"""Listeners of a push consumer.

- `listener`: what users write, and the `Delivery` it gets
- `runners`: call it, in threads or in the loop
- `concurrently`, `orderly`: the two services that submit messages to a runner and handle the result
- `send_back`: return a failed message to its broker
- `handoff`: iteration in place of a listener
- `consume_directly`: a call that an administrator asks for
- `hook_calls`: consume hooks around each call
"""
