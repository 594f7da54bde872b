"""Names of the statistics, and the form of their keys."""

from __future__ import annotations

from enum import StrEnum


class StatsName(StrEnum):
    """A set of counters; the key of each counter in it is made of the parts in the comment."""

    QUEUE_PUT_NUMS = "QUEUE_PUT_NUMS"  # topic@queue
    QUEUE_PUT_SIZE = "QUEUE_PUT_SIZE"  # topic@queue
    QUEUE_GET_NUMS = "QUEUE_GET_NUMS"  # topic@queue@group
    QUEUE_GET_SIZE = "QUEUE_GET_SIZE"  # topic@queue@group
    TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"  # topic
    TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"  # topic
    GROUP_GET_NUMS = "GROUP_GET_NUMS"  # topic@group
    GROUP_GET_SIZE = "GROUP_GET_SIZE"  # topic@group
    GROUP_GET_LATENCY = "GROUP_GET_LATENCY"  # queue@topic@group
    SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"  # topic@group
    BROKER_PUT_NUMS = "BROKER_PUT_NUMS"  # cluster
    BROKER_GET_NUMS = "BROKER_GET_NUMS"  # cluster
    GROUP_GET_FROM_DISK_NUMS = "GROUP_GET_FROM_DISK_NUMS"  # topic@group
    GROUP_GET_FROM_DISK_SIZE = "GROUP_GET_FROM_DISK_SIZE"  # topic@group
    BROKER_GET_FROM_DISK_NUMS = "BROKER_GET_FROM_DISK_NUMS"  # cluster
    BROKER_GET_FROM_DISK_SIZE = "BROKER_GET_FROM_DISK_SIZE"  # cluster
    COMMERCIAL_SEND_TIMES = "COMMERCIAL_SEND_TIMES"  # owner@topic@group@type
    COMMERCIAL_SNDBCK_TIMES = "COMMERCIAL_SNDBCK_TIMES"  # owner@topic@group@type
    COMMERCIAL_RCV_TIMES = "COMMERCIAL_RCV_TIMES"  # owner@topic@group@type
    COMMERCIAL_RCV_EPOLLS = "COMMERCIAL_RCV_EPOLLS"  # owner@topic@group@type
    COMMERCIAL_SEND_SIZE = "COMMERCIAL_SEND_SIZE"  # owner@topic@group@type
    COMMERCIAL_RCV_SIZE = "COMMERCIAL_RCV_SIZE"  # owner@topic@group@type
    COMMERCIAL_PERM_FAILURES = "COMMERCIAL_PERM_FAILURES"  # owner@topic@group@type


SCHEDULE_GROUP = "SCHEDULE_CONSUMER"
"""The group that delayed messages are counted for when they leave the schedule topic."""
GROUP_GET_FALL_SIZE = "GROUP_GET_FALL_SIZE"  # queue@topic@group; the latest value, not a count
GROUP_GET_FALL_TIME = "GROUP_GET_FALL_TIME"  # queue@topic@group

# Which part of a key, between the at-signs, is the topic, and which the group; -1 is the last.
TOPIC_PART = {
    StatsName.QUEUE_PUT_NUMS: 0,
    StatsName.QUEUE_PUT_SIZE: 0,
    StatsName.QUEUE_GET_NUMS: 0,
    StatsName.QUEUE_GET_SIZE: 0,
    StatsName.TOPIC_PUT_NUMS: 0,
    StatsName.TOPIC_PUT_SIZE: 0,
    StatsName.GROUP_GET_NUMS: 0,
    StatsName.GROUP_GET_SIZE: 0,
    StatsName.GROUP_GET_LATENCY: -2,
    StatsName.SNDBCK_PUT_NUMS: 0,
    StatsName.GROUP_GET_FROM_DISK_NUMS: 0,
    StatsName.GROUP_GET_FROM_DISK_SIZE: 0,
}
GROUP_PART = {
    StatsName.QUEUE_GET_NUMS: -1,
    StatsName.QUEUE_GET_SIZE: -1,
    StatsName.GROUP_GET_NUMS: -1,
    StatsName.GROUP_GET_SIZE: -1,
    StatsName.GROUP_GET_LATENCY: -1,
    StatsName.SNDBCK_PUT_NUMS: -1,
    StatsName.GROUP_GET_FROM_DISK_NUMS: -1,
    StatsName.GROUP_GET_FROM_DISK_SIZE: -1,
}


def has_part(key: str, part: int, name: str) -> bool:
    """Whether a part of a key equals the name."""
    return key.split("@")[part] == name
