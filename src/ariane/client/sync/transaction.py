"""TransactionProducer for threads, derived from ariane.client.producer.transaction by scripts/derive_sync.py."""

from collections.abc import Sequence
from typing import Any, Unpack

from ariane.client.observe.hooks import ForbidHook, SendHook, TransactionHook
from ariane.client.producer.options import ProducerKeywords, ProducerOptions
from ariane.client.producer.transaction import TransactionListener
from ariane.client.producer.transaction import TransactionProducer as AsyncTransactionProducer
from ariane.client.results import SendResult, TransactionResult, TransactionState
from ariane.client.sync.portal import Portal
from ariane.client.sync.producer import Producer
from ariane.env import Env
from ariane.message import Message
from ariane.remoting import RpcHook


class TransactionProducer(Producer):
    """A producer whose messages are delivered when a local transaction commits."""

    _client: AsyncTransactionProducer

    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        *,
        options: ProducerOptions | None = None,
        send_hooks: Sequence[SendHook] = (),
        forbid_hooks: Sequence[ForbidHook] = (),
        rpc_hooks: Sequence[RpcHook] = (),
        transaction_hooks: Sequence[TransactionHook] = (),
        env: Env | None = None,
        **keywords: Unpack[ProducerKeywords],
    ) -> None:
        self._portal = Portal.get()
        self._client = AsyncTransactionProducer(
            group,
            listener,
            options=options,
            send_hooks=send_hooks,
            forbid_hooks=forbid_hooks,
            rpc_hooks=rpc_hooks,
            transaction_hooks=transaction_hooks,
            env=env,
            **keywords,
        )

    def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout: float | None = None
    ) -> TransactionResult:
        """Send a half message, run the listener's `execute`, and report the outcome to the broker."""
        return self._portal.run(self._client.send_in_transaction(message, argument, timeout=timeout))

    def send_half(self, message: Message, *, timeout: float | None = None) -> SendResult:
        """Send a half message, the first step: no consumer gets it until `end_transaction` commits it.

        A delay level is dropped, as Apache's client does: brokers have no delayed half messages.
        """
        return self._portal.run(self._client.send_half(message, timeout=timeout))

    def end_transaction(self, sent: SendResult, state: TransactionState, *, message: Message | None = None) -> None:
        """Commit or roll back, the second step. After UNKNOWN the broker will check back."""
        self._portal.run(self._client.end_transaction(sent, state, message=message))
