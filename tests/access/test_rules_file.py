"""Rules files: what 4.9.7 reads is read, and a mistake is told with file, line and field, never with a secret."""

import pytest

from ariane.access.accounts import DENY, PUB, SUB
from ariane.access.rules_file import format_rules, parse_rules, with_account, with_white_addresses, without_account
from ariane.protocol.bodies import DataVersion
from ariane.settings import ConfigError

CANARY = "canary-Zq9x7"

FILE = """
# Apache's own example
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC = SUB
    groupPerms:
      - groupA=DENY
      - groupB=PUB|SUB

  - accessKey: rocketmq2
    secretKey: "12345678"
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
    color: red
dataVersion:
- counter: 7
  timestamp: 1700000000000
"""


def test_apaches_example_is_read() -> None:
    rules = parse_rules(FILE, "plain_acl.yml")
    first, second = rules.accounts
    assert [pattern.text for pattern in rules.white] == ["10.10.103.*", "192.168.0.*"]
    assert (first.access_key, first.admin, first.default_topic, first.default_group) == ("RocketMQ", False, DENY, SUB)
    assert first.key.sign(b"x") == second.key.sign(b"x")
    assert {name: first.rights_on(name) for name in ("topicA", "topicB", "topicC", "other")} == {
        "topicA": DENY,
        "topicB": PUB | SUB,
        "topicC": SUB,
        "other": DENY,
    }
    assert first.rights_on("%RETRY%groupA") == DENY
    assert first.rights_on("%RETRY%other") == SUB
    assert second.may("anything", PUB)
    assert rules.version == DataVersion(1700000000000, 7)
    assert rules.warnings == ()


def test_an_administrator_with_rights_is_held_to_them() -> None:
    text = "accounts:\n- {accessKey: limited, secretKey: 12345678, admin: true, topicPerms: [orders=SUB]}"
    [account] = parse_rules(text, "f").accounts
    assert account.may("orders", SUB)
    assert not account.may("orders", PUB)
    assert not account.may("others", SUB)


def test_internal_topics_and_dead_letters_are_not_opened_by_a_default() -> None:
    text = "accounts:\n- {accessKey: reader1, secretKey: 12345678, defaultTopicPerm: PUB|SUB, groupPerms: [mine=SUB]}"
    [account] = parse_rules(text, "f").accounts
    assert account.may("orders", SUB)
    for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_x", "%DLQ%theirs"):
        assert not account.may(topic, SUB)
    assert account.may("%DLQ%mine", SUB)


def test_topic_permissions_win_over_those_of_a_group_with_the_same_name() -> None:
    text = "accounts:\n- {accessKey: reader1, secretKey: 12345678, groupPerms: [g=SUB], topicPerms: ['%RETRY%g=DENY']}"
    assert not parse_rules(text, "f").accounts[0].may("%RETRY%g", SUB)


ACCOUNT = "accounts:\n- accessKey: account1\n  secretKey: " + CANARY + "\n"
MISTAKES = [
    (f"accounts:\n- accessKey: short\n  secretKey: {CANARY}", "f.yml:2: accounts[0].accessKey: must have at least 7"),
    ("accounts:\n- accessKey: account1\n  secretKey: canary", "f.yml:3: accounts[0].secretKey: must have at least 7"),
    (f"accounts:\n- secretKey: {CANARY}", "f.yml:2: accounts[0].accessKey: is missing"),
    ("accounts:\n- accessKey: account1", "f.yml:2: accounts[0].secretKey: is missing"),
    ("accounts:\n- accessKey: account1\n  secretKey: 01234567", "f.yml:3: accounts[0].secretKey: YAML would change"),
    ("accounts:\n- accessKey: account1\n  secretKey: 2020-01-01", "f.yml:3: accounts[0].secretKey: expected a text"),
    ("accounts: everybody", "f.yml:1: accounts: expected a list"),
    ("- a\n- b", "f.yml:1: expected fields"),
    (ACCOUNT + "  topicPerms: [orders]", "f.yml:4: accounts[0].topicPerms[0]: expected NAME=PERM"),
    (ACCOUNT + "  topicPerms: ['a=PUB=SUB']", "f.yml:4: accounts[0].topicPerms[0]: expected NAME=PERM"),
    (ACCOUNT + "  whiteRemoteAddress: 10.0.0.0/8", "f.yml:4: accounts[0].whiteRemoteAddress: '10.0.0.0/8' is no"),
    ("globalWhiteRemoteAddresses:\n- bogus", "f.yml:2: globalWhiteRemoteAddresses[0]: 'bogus' is no address"),
    (ACCOUNT + "  admin: perhaps", "f.yml:4: accounts[0].admin: expected true or false"),
    (ACCOUNT + "  admin: true\n  admin: false", "f.yml:5: accounts[0].admin: is given twice"),
    (ACCOUNT + "  topicPerms: {", "f.yml:4: broken YAML"),
    (
        "base: &base {topicPerms: [orders=DENY]}\n" + ACCOUNT + "  <<: *base\n  defaultTopicPerm: PUB",
        "f.yml:5: accounts[0].<<: merged fields are not read",
    ),
    (f"accounts:\n- accessKey: account1\n  secretKey: *{CANARY}", "f.yml:3: broken YAML"),
    (f"accounts:\n- accessKey: account1\n  secretKey: !{CANARY} x", "f.yml:3: "),
    (f"accounts:\n- accessKey: account1\n  secretKey: '{CANARY}", "f.yml:"),
]


@pytest.mark.parametrize(("text", "error"), MISTAKES)
def test_a_mistake_is_told_with_file_line_and_field_and_without_the_secret(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules(text, "f.yml")
    assert str(caught.value).startswith(error)
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value)


def test_an_unknown_permission_means_deny_and_is_told() -> None:
    rules = parse_rules(ACCOUNT + "  defaultTopicPerm: ANY\n  groupPerms: [g=sub]", "f.yml")
    assert not rules.accounts[0].may("orders", PUB | SUB)
    assert not rules.accounts[0].may("%RETRY%g", SUB)
    assert [warning.partition(" is none")[0] for warning in rules.warnings] == [
        "f.yml:5: accounts[0].groupPerms[0]: 'sub'",
        "f.yml:4: accounts[0].defaultTopicPerm: 'ANY'",
    ]


def test_no_secret_is_in_the_text_of_the_objects() -> None:
    assert CANARY not in repr(parse_rules(ACCOUNT, "f.yml"))


def test_a_changed_file_keeps_what_was_not_changed() -> None:
    before = parse_rules(FILE, "f")
    data = with_account(before.data, {"accessKey": "RocketMQ", "topicPerms": ["new=PUB"], "admin": False})
    data = with_account(data, {"accessKey": "account3", "secretKey": "00012345", "admin": True})
    data = with_white_addresses(without_account(data, "rocketmq2"), ["1.2.3.4"])
    after = parse_rules(format_rules(data, before.version, 5), "f")
    assert [account.access_key for account in after.accounts] == ["RocketMQ", "account3"]
    assert after.accounts[0].key.sign(b"x") == before.accounts[0].key.sign(b"x")
    assert after.accounts[0].rights_on("new") == PUB
    assert after.accounts[0].rights_on("%RETRY%groupB") == PUB | SUB
    assert [pattern.text for pattern in after.white] == ["1.2.3.4"]
    assert after.version == DataVersion(5, 8)
