"""Every subcommand: what it does, its options, and the function that runs it.

An option is written `t=topic` (takes a value), `t=topic!` (must be given) or `l:list` (takes none).
"""

from typing import NamedTuple

from ariane.cli.admin.call import Flag


class Subcommand(NamedTuple):
    """A subcommand of mqadmin."""

    name: str
    module: str
    function: str
    help: str
    options: str
    alias: str = ""

    def flags(self) -> list[Flag]:
        """Its options, -h and -n among them."""
        flags = [Flag("h", "help", False, False), Flag("n", "namesrvAddr", True, False)]
        for word in self.options.split():
            name = word[2:].rstrip("!")
            flags.append(Flag(word[0], name, word[1] == "=", word.endswith("!")))
        return flags


_B_OR_C = "b=brokerAddr c=clusterName"
_ROWS = [
    ("updateTopic", "topics", "update_topic", "create or change a topic",
     f"{_B_OR_C} t=topic! r=readQueueNums w=writeQueueNums p=perm o=order u=unit s=hasUnitSub"),
    ("deleteTopic", "topics", "delete_topic", "delete a topic from brokers and name servers",
     "t=topic! c=clusterName!"),
    ("updateSubGroup", "groups", "update_group", "create or change a consumer group",
     f"{_B_OR_C} g=groupName! s=consumeEnable m=consumeFromMinEnable d=consumeBroadcastEnable q=retryQueueNums "
     "r=retryMaxTimes i=brokerId w=whichBrokerWhenConsumeSlowly a=notifyConsumerIdsChanged"),
    ("deleteSubGroup", "groups", "delete_group", "delete a consumer group", f"{_B_OR_C} g=groupName! r=removeOffset"),
    ("updateBrokerConfig", "brokers", "update_config", "change an option of running brokers",
     f"{_B_OR_C} k=key! v=value!"),
    ("updateTopicPerm", "topics", "update_permission", "change the permission of a topic",
     f"{_B_OR_C} t=topic! p=perm!"),
    ("topicRoute", "topics", "route", "show the brokers and queues of a topic", "t=topic! l:list"),
    ("topicStatus", "topics", "status", "show first and last offset of each queue of a topic", "t=topic!"),
    ("topicClusterList", "topics", "clusters", "list the clusters of a topic", "t=topic!"),
    ("brokerStatus", "brokers", "status", "show the figures of brokers", _B_OR_C),
    ("queryMsgById", "messages", "by_id", "show messages by offset id; -g -d: have a client consume them",
     "i=msgId! g=consumerGroup d=clientId s=sendMessage u=unitName"),
    ("queryMsgByKey", "messages", "by_key", "list messages with a key", "t=topic! k=msgKey!"),
    ("queryMsgByUniqueKey", "messages", "by_unique_key", "show a message by the id that its producer gave it",
     "i=msgId! g=consumerGroup d=clientId t=topic! a:showAll"),
    ("queryMsgByOffset", "messages", "by_offset", "show the message at an offset of a queue",
     "t=topic! b=brokerName! i=queueId! o=offset!"),
    ("queryMsgTraceById", "messages", "trace", "show when a message was sent and consumed", "i=msgId! t=traceTopic",
     "QueryMsgTraceById"),
    ("printMsg", "printing", "of_topic", "print the messages of a topic",
     "t=topic! c=charsetName s=subExpression b=beginTimestamp e=endTimestamp d=printBody"),
    ("printMsgByQueue", "printing", "of_queue", "print the messages of a queue, or count them by tag",
     "t=topic! a=brokerName! i=queueId! c=charsetName s=subExpression b=beginTimestamp e=endTimestamp p=print "
     "d=printBody f=calculate"),
    ("sendMsgStatus", "sending", "status", "send messages to a broker and show their results",
     "b=brokerName! s=messageSize c=count"),
    ("brokerConsumeStats", "brokers", "consume_stats", "show the progress of every group of a broker",
     "b=brokerAddr! t=timeoutMillis l=level o=order"),
    ("producerConnection", "groups", "producers_of_group", "list the producers of a group",
     "g=producerGroup! t=topic!"),
    ("consumerConnection", "groups", "connections", "list the consumers of a group and what they subscribe to",
     "g=consumerGroup! b=brokerAddr"),
    ("consumerProgress", "groups", "progress", "show how far groups are behind", "g=groupName s=showClientIP"),
    ("consumerStatus", "running", "status", "ask the consumers of a group about their state",
     "g=consumerGroup! i=clientId b=brokerAddr s:jstack"),
    ("cloneGroupOffset", "offsets", "clone", "give a group the offsets of another one",
     "s=srcGroup! d=destGroup! t=topic! o=offline"),
    ("producer", "groups", "producers", "list all producers of a broker", "b=broker!"),
    ("clusterList", "clusters", "listing", "list clusters and brokers", "m:moreStats i=interval"),
    ("topicList", "topics", "listing", "list all topics", "c:clusterModel"),
    ("updateKvConfig", "name_servers", "update_kv", "set a value of the name servers' KV configuration",
     "s=namespace! k=key! v=value!"),
    ("deleteKvConfig", "name_servers", "delete_kv", "delete a value of the name servers' KV configuration",
     "s=namespace! k=key!"),
    ("wipeWritePerm", "name_servers", "wipe", "take a broker out of the routes for writing", "b=brokerName!"),
    ("addWritePerm", "name_servers", "add", "undo wipeWritePerm", "b=brokerName!"),
    ("resetOffsetByTime", "offsets", "reset", "move a group to a time",
     "g=group! t=topic! s=timestamp! f=force c:cplus"),
    ("skipAccumulatedMessage", "offsets", "skip", "move a group to the end of a topic", "g=group! t=topic! f=force"),
    ("updateOrderConf", "topics", "order", "set, show or delete the fixed queues of an ordered topic",
     "t=topic! v=orderConf m=method!"),
    ("cleanExpiredCQ", "brokers", "clean_queues", "delete consumequeue files whose messages are gone",
     "b=brokerAddr c=cluster"),
    ("deleteExpiredCommitLog", "brokers", "delete_commitlog", "delete expired commitlog files now",
     "b=brokerAddr c=cluster"),
    ("cleanUnusedTopic", "brokers", "clean_topics", "delete the queues of topics that are no longer configured",
     "b=brokerAddr c=cluster"),
    ("startMonitoring", "running", "monitor", "watch all groups and report what is wrong with them", ""),
    ("statsAll", "clusters", "stats", "show rates and backlog of all topics and groups", "a:activeTopic t=topic"),
    ("allocateMQ", "topics", "allocate", "show how queues would be divided among clients", "t=topic! i=ipList!"),
    ("checkMsgSendRT", "sending", "round_trips", "send to each queue of a topic and measure the time",
     "t=topic! a=amount s=size"),
    ("clusterRT", "sending", "cluster_round_trips", "send to each broker of a cluster and measure the time, for ever",
     "a=amount s=size c=cluster p=print m=machine i=interval"),
    ("getNamesrvConfig", "name_servers", "configs", "show the options of name servers", ""),
    ("updateNamesrvConfig", "name_servers", "update_config", "change an option of name servers", "k=key! v=value!"),
    ("getBrokerConfig", "brokers", "configs", "show the options of brokers", _B_OR_C),
    ("getConsumerConfig", "groups", "configs", "show the settings of a group on each broker", "g=groupName!"),
    ("queryCq", "brokers", "consumequeue", "show entries of a consumequeue",
     "t=topic! q=queue! i=index! c=count b=broker g=consumer"),
    ("sendMessage", "sending", "send", "send a message",
     "t=topic! p=body! k=key c=tags b=broker i=qid m=msgTraceEnable"),
    ("consumeMessage", "printing", "consume", "print messages of a topic, a queue, or from an offset on",
     "t=topic! b=brokerName i=queueId o=offset g=consumerGroup s=beginTimestamp e=endTimestamp c=MessageNumber"),
    ("updateAclConfig", "access", "update", "create or change an account",
     f"{_B_OR_C} a=accessKey! s=secretKey! w=whiteRemoteAddress i=defaultTopicPerm u=defaultGroupPerm t=topicPerms "
     "g=groupPerms m=admin"),
    ("deleteAclConfig", "access", "delete", "delete an account", f"{_B_OR_C} a=accessKey!", "deleteAccessConfig"),
    ("clusterAclConfigVersion", "access", "versions", "show the versions of access rules", _B_OR_C),
    ("updateGlobalWhiteAddr", "access", "white_addresses", "set the addresses that need no keys",
     f"{_B_OR_C} g=globalWhiteRemoteAddresses! p=aclFileFullPath"),
    ("getAclConfig", "access", "show", "show accounts and addresses that need no keys", _B_OR_C,
     "getAccessConfigSubCommand"),
    ("exportMetadata", "exports", "metadata", "write topics and groups to a file",
     f"{_B_OR_C} f=filePath t:topic g:subscriptionGroup s:specialTopic"),
    ("exportConfigs", "exports", "configs", "write the brokers' main options to a file", "c=clusterName! f=filePath"),
    ("exportMetrics", "exports", "metrics", "write the brokers' figures to a file", "c=clusterName! f=filePath"),
]  # fmt: skip

SUBCOMMANDS = [Subcommand(*row) for row in _ROWS]
"""In mqadmin's order."""


def find(name: str) -> Subcommand | None:
    """A subcommand by name or alias, in any case."""
    lower = name.lower()
    return next((one for one in SUBCOMMANDS if lower in (one.name.lower(), one.alias.lower() or None)), None)
