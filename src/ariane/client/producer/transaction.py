"""Transaction messages: delivered when, and only if, a local transaction commits."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, Unpack

from ariane.client.connect.instance import Instance
from ariane.client.connect.tasks import is_cancelled
from ariane.client.observe.hooks import EndTransactionContext, ForbidHook, SendHook, TransactionHook, call_hooks
from ariane.client.producer.checks import accepts, check_message
from ariane.client.producer.options import ProducerKeywords, ProducerOptions
from ariane.client.producer.producer import Producer
from ariane.client.results import SendResult, SendStatus, TransactionResult, TransactionState
from ariane.env import Env
from ariane.errors import ArianeError, ClientError
from ariane.message import DELAY, PRODUCER_GROUP, TRANSACTION_PREPARED, UNIQUE_KEY, Message, ReceivedMessage
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import CheckTransactionStateRequest, EndTransactionRequest
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK
from ariane.remoting import RpcHook

log = logging.getLogger("ariane.client")

Verdict = TransactionState | None | Awaitable[TransactionState | None]
CODES = {
    TransactionState.COMMIT: TRANSACTION_COMMIT,
    TransactionState.ROLLBACK: TRANSACTION_ROLLBACK,
    TransactionState.UNKNOWN: TRANSACTION_NOT,
}


class TransactionListener(Protocol):
    """The local transaction; both methods may be functions or coroutine functions."""

    def execute(self, message: Message, result: SendResult, argument: Any) -> Verdict:
        """Run the local transaction. None and exceptions mean UNKNOWN: the broker will check back."""
        ...

    def check(self, message: ReceivedMessage) -> Verdict:
        """Return the outcome; brokers ask, also for messages that another producer of the group sent."""
        ...


def check_listener(listener: TransactionListener) -> None:
    """Raise ClientError unless the listener has both methods with matching signatures."""
    for name, arguments in (("execute", "message, result, argument"), ("check", "message")):
        method = getattr(listener, name, None)
        if not callable(method) or not accepts(method, len(arguments.split(","))):
            raise ClientError(f"a transaction listener needs a method {name}({arguments}): {listener!r} has none")


class LocalTransactions:
    """Calls the listener, and reports outcomes to brokers."""

    def __init__(
        self, group: str, listener: TransactionListener, instance: Instance, hooks: Sequence[TransactionHook]
    ) -> None:
        self._group = group
        self._listener = listener
        self._instance = instance
        self._hooks = tuple(hooks)
        self._threads = ThreadPoolExecutor(4, thread_name_prefix=f"ariane-transaction-{group}")

    async def execute(
        self, message: Message, sent: SendResult, argument: Any
    ) -> tuple[TransactionState, BaseException | None]:
        """Run the local transaction."""
        return await self._ask(self._listener.execute, message, sent, argument)

    async def end(self, sent: SendResult, state: TransactionState, message: Message | None) -> None:
        """Report the outcome of a transaction to the broker."""
        _, offset = parse_offset_id(sent.offset_id.partition(",")[0])
        header = EndTransactionRequest(
            self._group, sent.queue_offset, offset, CODES[state], sent.message_id, transaction_id=sent.transaction_id
        )
        address = await self._instance.calls.master(sent.queue)
        if message is not None:
            self._call_hooks(message, header, address, state)
        await self._instance.wire.tell(address, RequestCode.END_TRANSACTION, header)

    async def answer_check(self, address: str, message: ReceivedMessage, header: CheckTransactionStateRequest) -> None:
        """Answer the check of a broker for a transaction of this group."""
        state, _ = await self._ask(self._listener.check, message)
        answer = EndTransactionRequest(
            self._group,
            header.tran_state_table_offset,
            header.commit_log_offset,
            CODES[state],
            message.properties.get(UNIQUE_KEY) or message.message_id,
            from_transaction_check=True,
            transaction_id=header.transaction_id,
        )
        self._call_hooks(message, answer, address, state)
        try:
            await self._instance.wire.tell(address, RequestCode.END_TRANSACTION, answer)
        except ArianeError as error:  # the broker asks again
            log.warning(
                "cannot answer the check of transaction %s, the broker will ask again: %s", answer.msg_id, error
            )

    async def _ask(
        self, method: Callable[..., Verdict], *arguments: Any
    ) -> tuple[TransactionState, BaseException | None]:
        """Call the listener; a function runs in a thread, so that a slow database does not block the loop."""
        try:
            if inspect.iscoroutinefunction(method):
                state = await method(*arguments)
            else:
                loop = asyncio.get_running_loop()
                state = await loop.run_in_executor(self._threads, lambda: method(*arguments))
        except BaseException as error:  # a SystemExit would end the loop and all its clients
            if is_cancelled():
                raise
            log.warning("a transaction listener failed; the broker will check back", exc_info=True)
            return TransactionState.UNKNOWN, error
        if state is None or isinstance(state, TransactionState):
            return state or TransactionState.UNKNOWN, None
        mistake = ClientError(f"a transaction listener returned {state!r}, which is not a TransactionState")
        log.warning("%s; the broker will check back", mistake)
        return TransactionState.UNKNOWN, mistake

    def _call_hooks(
        self,
        message: Message | ReceivedMessage,
        header: EndTransactionRequest,
        address: str,
        state: TransactionState,
    ) -> None:
        if not self._hooks:
            return
        context = EndTransactionContext(
            self._group, message, header.msg_id, address, state.value, header.transaction_id or "",
            header.from_transaction_check, self._instance.address,
        )  # fmt: skip
        call_hooks([hook.end_transaction for hook in self._hooks], context)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False)


class TransactionProducer(Producer):
    """A producer whose messages are delivered when a local transaction commits."""

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
        super().__init__(
            group,
            options=options,
            send_hooks=send_hooks,
            forbid_hooks=forbid_hooks,
            rpc_hooks=rpc_hooks,
            env=env,
            **keywords,
        )
        check_listener(listener)
        self._listener = listener
        self._transaction_hooks = tuple(transaction_hooks)
        self._local_or_none: LocalTransactions | None = None

    async def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout: float | None = None
    ) -> TransactionResult:
        """Send a half message, run the listener's `execute`, and report the outcome to the broker."""
        sent = await self.send_half(message, timeout=timeout)
        state, failure = TransactionState.ROLLBACK, None
        if sent.status is SendStatus.SEND_OK:
            state, failure = await self._local.execute(message, sent, argument)
        try:
            await self.end_transaction(sent, state, message=message)
        except ArianeError as error:  # the broker checks back
            log.warning(
                "cannot report the outcome of transaction %s, the broker will check back: %s", sent.message_id, error
            )
            failure = failure or error
        return TransactionResult(sent, state, failure)

    async def send_half(self, message: Message, *, timeout: float | None = None) -> SendResult:
        """Send a half message, the first step: no consumer gets it until `end_transaction` commits it.

        A delay level is dropped, as Apache's client does: brokers have no delayed half messages.
        """
        self._running()
        properties = {name: value for name, value in message.properties.items() if name != DELAY}
        properties |= {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: self._group}
        half = Message.with_properties(message.topic, message.body, properties, message.flag)
        check_message(half, self._options)
        return await self.send(half, timeout=timeout)

    async def end_transaction(
        self, sent: SendResult, state: TransactionState, *, message: Message | None = None
    ) -> None:
        """Commit or roll back, the second step. After UNKNOWN the broker will check back."""
        self._running()
        await self._local.end(sent, state, message)

    async def _open(self, instance: Instance) -> None:
        await super()._open(instance)
        hooks = self._transaction_hooks if self._tracer is None else (*self._transaction_hooks, self._tracer)
        self._local_or_none = LocalTransactions(self._group, self._listener, instance, hooks)
        instance.producers[self._group] = self._local_or_none
        await instance.register_everywhere()

    async def _shut(self, instance: Instance) -> None:
        await super()._shut(instance)
        self._local.close()

    @property
    def _local(self) -> LocalTransactions:
        assert self._local_or_none is not None
        return self._local_or_none
