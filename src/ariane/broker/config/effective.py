"""Rules between options: values that Apache's start-up derives from others, and combinations it refuses."""

from __future__ import annotations

import re

from ariane.filter.bloom import bloom_bits
from ariane.settings import Settings, Value

MASTER_ID = 0
DLEDGER_ID = -1


def effective(settings: Settings) -> Settings:
    """The settings with all derived values; a ConfigError when they contradict each other."""
    _check_role(settings)
    _check_dledger(settings)
    for name, other in (("brokerAccessKey", "brokerSecretKey"), ("brokerSecretKey", "brokerAccessKey")):
        if settings[name] and not settings[other]:
            raise settings.error(name, f"goes together with {other}: set both, or neither")
    derived: dict[str, Value | None] = {
        "haListenPort": _ha_port(settings),  # as in Apache's broker, a configured value is ignored
        "brokerId": _broker_id(settings),
        "bitMapLengthConsumeQueueExt": bloom_bits(
            _number(settings, "maxErrorRateOfBloomFilter"), _number(settings, "expectConsumerNumUseFilter")
        ),
        "useTLS": _speaks_tls(settings),
    }
    return settings.assumed(derived)


def _check_role(settings: Settings) -> None:
    if settings["brokerRole"] == "SLAVE" and _number(settings, "brokerId") <= MASTER_ID:
        raise settings.error("brokerId", "a slave's brokerId must be above 0")


def _check_dledger(settings: Settings) -> None:
    if not settings["enableDLegerCommitLog"]:
        return
    for name in ("dLegerGroup", "dLegerPeers", "dLegerSelfId"):
        if not settings[name]:
            raise settings.error(name, "must be set when enableDLegerCommitLog is true")
    peers = [peer.partition("-") for peer in str(settings["dLegerPeers"]).split(";")]
    members, addresses = [id for id, _, _ in peers], [address for _, _, address in peers]
    for named in (members, addresses):
        for twice in {name for name in named if named.count(name) > 1}:
            raise settings.error("dLegerPeers", f"names {twice} twice")
    if _number(settings, "dLegerElectionTimeout") < 2 * _number(settings, "dLegerHeartbeatInterval"):
        raise settings.error("dLegerElectionTimeout", "must be at least twice dLegerHeartbeatInterval")
    if settings["dLegerSelfId"] not in members:
        raise settings.error("dLegerSelfId", f"is none of the members {', '.join(members)} of dLegerPeers")
    if not re.fullmatch("[a-zA-Z][0-9]{1,9}", str(settings["dLegerSelfId"])):
        raise settings.error("dLegerSelfId", "must be a letter and a number, such as n0: the number tells the brokerId")


def _broker_id(settings: Settings) -> int:
    if settings["enableDLegerCommitLog"]:
        return DLEDGER_ID
    return _number(settings, "brokerId") if settings["brokerRole"] == "SLAVE" else MASTER_ID


def _ha_port(settings: Settings) -> int:
    port = _number(settings, "listenPort")
    return port + 1 if port else 0


def _speaks_tls(settings: Settings) -> bool:
    """useTLS if it is set, else tls.enable if it is set, else whether this server takes nothing but TLS."""
    if "useTLS" in settings.given:
        return bool(settings["useTLS"])
    if "tls.enable" in settings.given:
        return bool(settings["tls.enable"])
    return settings["tls.server.mode"] == "enforcing"


def _number(settings: Settings, name: str) -> int:
    value = settings[name]
    assert isinstance(value, int)
    return value
