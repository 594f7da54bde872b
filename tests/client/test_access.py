"""Access control and TLS: a denial says that it is one."""

from collections.abc import Callable

import pytest

from ariane import ConsumeFrom, Message, SendStatus, aio
from ariane.access.signer import Signer
from ariane.errors import AccessDenied
from ariane.protocol.command import Command
from ariane.protocol.signing import sign
from ariane.remoting import TlsClient
from tests.client.inbox import Inbox
from tests.peers import ApacheBroker, ApacheNamesrv, unique

ACL = """
accounts:
- accessKey: shopkeeper
  secretKey: shop-secret
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - orders=PUB|SUB
- accessKey: owner-key
  secretKey: owner-secret
  admin: true
"""


def test_signatures_cover_the_fields_in_order_and_the_body() -> None:
    """The text is as Apache's broker checks it: values in the order of names, without the signature itself."""
    signer = Signer("key", "secret", "token")
    command = Command(310, {"b": "2", "a": "1"}, b"body")
    signer.before_request("peer", command)
    fields = {"AccessKey": "key", "SecurityToken": "token", "a": "1", "b": "2"}
    assert command.fields == {**fields, "Signature": sign("secret", fields, b"body")}


async def test_apaches_broker_lets_in_who_signs_and_names_the_denial_of_others(
    apache_namesrv: Callable[..., ApacheNamesrv], apache_broker: Callable[..., ApacheBroker]
) -> None:
    ns = apache_namesrv().address
    apache_broker(ns, config={"aclEnable": "true"}, files={"conf/plain_acl.yml": ACL})
    good = {"name_servers": ns, "access_key": "shopkeeper", "secret_key": "shop-secret"}
    async with aio.Admin(name_servers=ns, access_key="owner-key", secret_key="owner-secret") as admin:
        await admin.create_topic("orders", queues=2)
        await admin.create_topic("secrets", queues=2)
    inbox = Inbox()
    async with aio.Producer("shop", **good) as producer:
        assert (await producer.send(Message("orders", b"x"))).status is SendStatus.SEND_OK
        with pytest.raises(AccessDenied, match=r"denied access to SEND_MESSAGE_V2.*check the access key"):
            await producer.send(Message("secrets", b"x"))
    async with aio.PushConsumer("shop", "orders", inbox, consume_from=ConsumeFrom.FIRST, **good):
        await inbox.arrived(1)
    for bad in (
        {"access_key": "shopkeeper", "secret_key": "wrong678"},
        {"access_key": "nobody", "secret_key": "x"},
        {},
    ):
        async with aio.Producer(unique("p"), name_servers=ns, **bad) as producer:
            with pytest.raises(AccessDenied):
                await producer.send(Message("orders", b"x"))
        with pytest.raises(AccessDenied):
            await aio.PushConsumer(unique("g"), "orders", inbox, name_servers=ns, **bad).start()


async def test_a_client_speaks_tls_when_told_to(ns: str, topic: str, group: str) -> None:
    inbox = Inbox()
    options = {"name_servers": ns, "tls": TlsClient(insecure=True)}
    async with (
        aio.Producer(unique("p"), **options) as producer,
        aio.PushConsumer(group, topic, inbox, consume_from=ConsumeFrom.FIRST, **options),
    ):
        assert (await producer.send(Message(topic, b"secret"))).status is SendStatus.SEND_OK
        await inbox.arrived(1)
