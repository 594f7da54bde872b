"""`ariane acl check`: says whether a file is good, and what an account may do and why."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ariane.cli.acl import app

FILE = """
globalWhiteRemoteAddresses: [10.9.*.*]
accounts:
- accessKey: shop-app
  secretKey: canary-secret
  whiteRemoteAddress: 10.1.2.3
  topicPerms: [orders=PUB|SUB, stock=DENY]
  groupPerms: [shop=SUB]
  defaultTopicPerm: SUB
- accessKey: operator
  secretKey: canary-secret
  admin: true
"""

QUESTIONS = [
    ("shop-app PUB --topic orders", 0, "yes: its own entry says orders=PUB|SUB"),
    ("shop-app PUB --topic stock", 1, "no: its own entry says stock=DENY"),
    ("shop-app PUB --topic other", 1, "no: no entry names the topic, and defaultTopicPerm is SUB"),
    ("shop-app SUB --topic other", 0, "yes: no entry names the topic, and defaultTopicPerm is SUB"),
    ("shop-app SUB --group shop", 0, "yes: its own entry says shop=SUB"),
    ("shop-app SUB --group other", 1, "no: no entry names the group, and defaultGroupPerm is DENY"),
    ("shop-app SUB --topic SCHEDULE_TOPIC_XXXX", 1, "no: no entry names the topic, and no default opens"),
    ("shop-app SUB --topic %DLQ%other", 1, "no: no entry names the topic: defaultTopicPerm and SUB on the group"),
    ("shop-app PUB --topic RMQ_SYS_TRACE_TOPIC", 0, "yes: every account may write to the trace topic"),
    ("shop-app PUB --topic other --from 10.9.1.1", 0, "yes: the address is on the global white list"),
    ("shop-app SUB --group shop --from 10.1.2.3", 0, "yes: its own entry says shop=SUB; no signature is needed"),
    ("operator PUB --topic other", 0, "yes: it is an administrator"),
    ("nobody SUB --topic other", 1, "no: no account has the access key nobody"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plain_acl.yml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(("question", "code", "answer"), QUESTIONS, ids=[question for question, _, _ in QUESTIONS])
def test_a_question_is_answered_with_the_rule_that_decides(file: Path, question: str, code: int, answer: str) -> None:
    account, right, *rest = question.split()
    result = CliRunner().invoke(app, ["check", str(file), "--account", account, "--may", right, *rest])
    assert (result.exit_code, result.output[: len(answer)]) == (code, answer)
    assert "canary" not in result.output


def test_a_good_file_is_counted_and_a_broken_one_is_told_with_its_line(file: Path) -> None:
    good = CliRunner().invoke(app, ["check", str(file)])
    assert (good.exit_code, good.output) == (0, "good: 2 accounts (1 administrators), 1 white addresses\n")
    file.write_text(FILE.replace("admin: true", "admin: perhaps"))
    broken = CliRunner().invoke(app, ["check", str(file)])
    assert broken.exit_code == 2
    assert f"{file}:12: accounts[1].admin: expected true or false" in broken.output
    assert "canary" not in broken.output
    missing = CliRunner().invoke(app, ["check", str(file.parent / "none.yml")])
    assert missing.exit_code == 2
    assert "none.yml: cannot be read" in missing.output
