"""Every request code with every kind of credentials: the requests, the accounts, and what the documents promise."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ariane.access.gate import PREFIX
from ariane.access.signer import Signer
from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.codes import (
    BROKER_PROMOTED,
    GET_FILTER,
    GET_FILTER_LIST,
    PROMOTE_BROKER,
    REMOVE_FILTER,
    RESEND_DEAD_LETTERS,
)
from ariane.protocol.codes import RequestCode as Code
from ariane.protocol.command import Command
from tests.access.document import PAGE
from tests.broker.talk import pull_fields, send_fields

SECRET = "matrix-secret"
TOPIC, GROUP, OTHER = "guarded", "guards", "others"

RULES = f"""
accounts:
- {{accessKey: denied-key, secretKey: {SECRET}}}
- {{accessKey: pub-key, secretKey: {SECRET}, topicPerms: ["{TOPIC}=PUB"]}}
- accessKey: sub-key
  secretKey: {SECRET}
  topicPerms: ["{TOPIC}=SUB"]
  groupPerms: ["{GROUP}=SUB", "{OTHER}=SUB"]
- accessKey: filter-key
  secretKey: {SECRET}
  topicPerms: ["{TOPIC}=SUB"]
  groupPerms: ["{GROUP}=SUB", "{OTHER}=SUB"]
  filterGroups: ["{GROUP}"]
- {{accessKey: group-pub-key, secretKey: {SECRET}, groupPerms: ["{GROUP}=PUB", "{OTHER}=PUB"]}}
- accessKey: white-sub-key
  secretKey: {SECRET}
  whiteRemoteAddress: 127.0.0.1
  topicPerms: ["{TOPIC}=SUB"]
  groupPerms: ["{GROUP}=SUB", "{OTHER}=SUB"]
- {{accessKey: limited-admin, secretKey: {SECRET}, admin: true, topicPerms: ["{TOPIC}=PUB"]}}
- {{accessKey: admin-key, secretKey: {SECRET}, admin: true}}
"""


@dataclass(frozen=True)
class Credentials:
    """How a request is signed, and what its account has."""

    name: str
    access_key: str | None
    secret: str | None = SECRET
    tamper: bool = False
    rights: frozenset[str] = frozenset()
    """Of account, pub, sub, filter, admin, unlimited; empty when nothing is to be let in."""

    def sign(self, command: Command) -> Command:
        if self.access_key is None:
            return command
        if self.secret is None:
            command.fields["AccessKey"] = self.access_key
            return command
        Signer(self.access_key, self.secret).before_request("", command)
        if self.tamper:
            command.body += b" "
        return command


CREDENTIALS = [
    Credentials("no key", None),
    Credentials("unknown key", "nobodys-key"),
    Credentials("other case", "Admin-Key"),
    Credentials("wrong secret", "admin-key", "other-secret"),
    Credentials("unsigned", "admin-key", None),
    Credentials("tampered", "admin-key", tamper=True),
    Credentials("no right", "denied-key", rights=frozenset({"account"})),
    Credentials("PUB", "pub-key", rights=frozenset({"account", "pub"})),
    Credentials("SUB", "sub-key", rights=frozenset({"account", "sub"})),
    Credentials("filters", "filter-key", rights=frozenset({"account", "sub", "filter"})),
    Credentials("PUB on groups", "group-pub-key", rights=frozenset({"account"})),
    Credentials("white address", "white-sub-key", None, rights=frozenset({"account", "sub"})),
    Credentials("limited administrator", "limited-admin", rights=frozenset({"account", "pub", "admin"})),
    Credentials("administrator", "admin-key", rights=frozenset({"account", "pub", "sub", "filter", "admin"})),
]


def requests(place: int) -> dict[int, Callable[[], Command]]:
    """A request of each code on TOPIC and GROUP; `place` is where a message of TOPIC is in the log."""
    queue = {"topic": TOPIC, "queueId": "0"}
    both = {"topic": TOPIC, "consumerGroup": GROUP}
    group = {"consumerGroup": GROUP}
    named = {"topic": TOPIC, "group": GROUP}
    subscription = {"topic": TOPIC, "subString": "*", "expressionType": "TAG"}
    consumer = {"groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "subscriptionDataSet": [subscription]}  # fmt: skip
    heartbeat = {"clientID": "matrix", "producerDataSet": [], "consumerDataSet": [consumer]}
    locks = {"consumerGroup": GROUP, "clientId": "matrix", "mqSet": [{"topic": TOPIC, "brokerName": "b", "queueId": 0}]}
    config = {"clientId": "matrix", "group": GROUP, "subscriptionData": subscription}
    send = send_fields(TOPIC, v2=False)
    short = send_fields(TOPIC)
    half = {"producerGroup": "p", "tranStateTableOffset": "0", "commitLogOffset": str(place), "commitOrRollback": "8",
            "msgId": "x", "transactionId": "x"}  # fmt: skip
    create = {"topic": "made", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
              "topicFilterType": "SINGLE_TAG"}  # fmt: skip
    query = {**queue, "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9999999999999"}
    raw: dict[int, tuple[dict[str, str], bytes]] = {
        Code.SEND_MESSAGE: (send, b"x"),
        Code.SEND_MESSAGE_V2: (short, b"x"),
        Code.SEND_BATCH_MESSAGE: ({**short, "m": "true"}, encode_batch([BatchItem(0, b"x", b"")])),
        Code.SEND_REPLY_MESSAGE: (send, b"x"),
        Code.SEND_REPLY_MESSAGE_V2: (short, b"x"),
        Code.PULL_MESSAGE: (pull_fields(TOPIC, consumer_group=GROUP), b""),
        Code.CONSUMER_SEND_MSG_BACK: ({"offset": str(place), "group": GROUP, "delayLevel": "1"}, b""),
        Code.END_TRANSACTION: (half, b""),
        Code.QUERY_MESSAGE: (query, b""),
        Code.VIEW_MESSAGE_BY_ID: ({"offset": str(place)}, b""),
        Code.HEART_BEAT: ({}, json.dumps(heartbeat).encode()),
        Code.UNREGISTER_CLIENT: ({"clientID": "matrix", **group}, b""),
        Code.CHECK_CLIENT_CONFIG: ({}, json.dumps(config).encode()),
        Code.GET_CONSUMER_LIST_BY_GROUP: (group, b""),
        Code.QUERY_CONSUMER_OFFSET: ({**both, "queueId": "0"}, b""),
        Code.UPDATE_CONSUMER_OFFSET: ({**both, "queueId": "0", "commitOffset": "0"}, b""),
        Code.GET_MAX_OFFSET: (queue, b""),
        Code.GET_MIN_OFFSET: (queue, b""),
        Code.SEARCH_OFFSET_BY_TIMESTAMP: ({**queue, "timestamp": "0"}, b""),
        Code.GET_EARLIEST_MSG_STORETIME: (queue, b""),
        Code.LOCK_BATCH_MQ: ({}, json.dumps(locks).encode()),
        Code.UNLOCK_BATCH_MQ: ({}, json.dumps(locks).encode()),
        Code.GET_TOPIC_STATS_INFO: (queue, b""),
        Code.GET_TOPIC_CONFIG: (queue, b""),
        Code.QUERY_TOPIC_CONSUME_BY_WHO: (queue, b""),
        Code.GET_CONSUME_STATS: (both, b""),
        Code.GET_CONSUMER_CONNECTION_LIST: (group, b""),
        Code.GET_CONSUMER_RUNNING_INFO: ({**group, "clientId": "matrix-not-there"}, b""),
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (named, b""),
        Code.INVOKE_BROKER_TO_RESET_OFFSET: ({**named, "timestamp": "0", "isForce": "true"}, b""),
        Code.QUERY_CONSUME_TIME_SPAN: (named, b""),
        Code.QUERY_CONSUME_QUEUE: ({**both, "queueId": "0", "index": "0", "count": "1"}, b""),
        Code.QUERY_CORRECTION_OFFSET: ({"topic": TOPIC, "compareGroup": GROUP}, b""),
        Code.CLONE_GROUP_OFFSET: ({"srcGroup": GROUP, "destGroup": OTHER, "topic": TOPIC, "offline": "true"}, b""),
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: ({}, b""),
        Code.GET_BROKER_RUNTIME_INFO: ({}, b""),
        Code.GET_ALL_TOPIC_CONFIG: ({}, b""),
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: ({}, b""),
        Code.GET_ALL_CONSUMER_OFFSET: ({}, b""),
        Code.GET_ALL_DELAY_OFFSET: ({}, b""),
        Code.UPDATE_AND_CREATE_TOPIC: (create, b""),
        Code.DELETE_TOPIC_IN_BROKER: ({"topic": "made"}, b""),
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: ({}, json.dumps({"groupName": "made"}).encode()),
        Code.DELETE_SUBSCRIPTIONGROUP: ({"groupName": "made"}, b""),
        Code.UPDATE_BROKER_CONFIG: ({}, b""),
        Code.GET_BROKER_CONFIG: ({}, b""),
        Code.GET_PRODUCER_CONNECTION_LIST: ({"producerGroup": "p"}, b""),
        Code.GET_ALL_PRODUCER_INFO: ({}, b""),
        Code.GET_BROKER_CONSUME_STATS: ({"isOrder": "false"}, b""),
        Code.VIEW_BROKER_STATS_DATA: ({"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}, b""),
        Code.CONSUME_MESSAGE_DIRECTLY: ({**group, "clientId": "x", "msgId": "0" * 32}, b""),
        Code.CLEAN_EXPIRED_CONSUMEQUEUE: ({}, b""),
        Code.DELETE_EXPIRED_COMMITLOG: ({}, b""),
        Code.CLEAN_UNUSED_TOPIC: ({}, b""),
        Code.RESUME_CHECK_HALF_MESSAGE: ({"msgId": "0" * 32}, b""),
        PROMOTE_BROKER: ({"brokerName": "another"}, b""),
        BROKER_PROMOTED: ({}, b""),
        RESEND_DEAD_LETTERS: ({**group, "offset": "0"}, b""),
        Code.REGISTER_MESSAGE_FILTER_CLASS: ({**both, "className": "f", "classCRC": "0"}, b""),
        Code.REGISTER_FILTER_SERVER: ({"filterServerAddr": "127.0.0.1:1"}, b""),
        GET_FILTER_LIST: ({}, b""),
        GET_FILTER: (both, b""),
        REMOVE_FILTER: (both, b""),
        Code.UPDATE_AND_CREATE_ACL_CONFIG: ({"accessKey": "made-key", "secretKey": "made-secret"}, b""),
        Code.DELETE_ACL_CONFIG: ({"accessKey": "not-there"}, b""),
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: ({"globalWhiteAddrs": "9.9.9.9"}, b""),
        Code.GET_BROKER_CLUSTER_ACL_INFO: ({}, b""),
        Code.GET_BROKER_CLUSTER_ACL_CONFIG: ({}, b""),
    }  # fmt: skip
    return {int(code): _maker(int(code), *parts) for code, parts in raw.items()}


def _maker(code: int, fields: dict[str, str], body: bytes) -> Callable[[], Command]:
    return lambda: Command(code, dict(fields), body)


def documented() -> dict[int, tuple[str, str]]:
    """Who may send each code, with which rights, as `docs/security.md` says for the broker."""
    text = PAGE.read_text().partition("<!-- table: broker -->")[2].partition("<!-- end: broker -->")[0]
    return {code: (who, rights) for code, who, rights in _rows(text)}


def _rows(text: str) -> Iterator[tuple[int, str, str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0][:1].isdigit():
            yield int(cells[0].split()[0]), cells[1], cells[2]


def is_promised(code: int, credentials: Credentials, promise: tuple[str, str]) -> bool:
    """Whether the documents let these credentials send this code on TOPIC and GROUP."""
    who, rights = promise
    if not credentials.rights:
        return False
    if who.startswith("administrators"):
        return "admin" in credentials.rights
    if rights == "none":
        return True
    if "filterGroups" in rights:
        return "filter" in credentials.rights
    if "PUB or SUB" in rights:
        return bool(credentials.rights & {"pub", "sub"})
    return ("pub" if "PUB on" in rights else "sub") in credentials.rights


def is_refused(answer: Any) -> bool:
    """Whether an answer is a refusal of access control."""
    return (answer.remark or "").startswith(PREFIX)
