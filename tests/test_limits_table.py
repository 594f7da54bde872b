"""The table of limits: complete, current in the docs, and each with an option that exists."""

from ariane.broker.config.table import BROKER_TABLE
from ariane.namesrv.config import NAMESRV_TABLE
from ariane.remoting.limits import BROKER_LIMITS, NAMESRV_LIMITS, SERVER_LIMITS, Reason, Refusals
from scripts.limits_table import PAGE, page_with_table


def test_the_table_in_the_docs_is_that_of_the_code() -> None:
    page = PAGE.read_text()
    assert page == page_with_table(page), "run python -m scripts.limits_table"


def test_every_reason_is_in_the_table_once_and_is_counted() -> None:
    reasons = [limit.reason for limit in (*SERVER_LIMITS, *BROKER_LIMITS, *NAMESRV_LIMITS)]
    assert sorted(reasons) == sorted(Reason)
    assert Refusals().counts() == dict.fromkeys(map(str, Reason), 0)


def test_limits_of_both_servers_have_the_same_defaults() -> None:
    for limit in SERVER_LIMITS:
        assert BROKER_TABLE.find(limit.option) == NAMESRV_TABLE.find(limit.option)
