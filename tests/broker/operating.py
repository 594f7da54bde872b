"""What tests of operators' requests share."""

from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import UpdateConsumerOffsetRequest
from tests.broker.talk import Talk


async def commit(talk: Talk, topic: str, offset: int, queue_id: int = 0, group: str = "workers") -> None:
    fields = UpdateConsumerOffsetRequest(group, topic, queue_id, offset).fields()
    assert (await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


async def ok(talk: Talk, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
    answer = await talk.ask(code, fields, body)
    assert answer.code == 0, answer.remark
    return answer


async def five(talk: Talk) -> None:
    for i in range(5):
        await talk.send_ok("orders", str(i).encode())
