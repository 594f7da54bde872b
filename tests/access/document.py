"""The tables of `docs/security.md` that come from code; `python -m tests.access.document` writes them."""

from collections.abc import Mapping
from pathlib import Path

from ariane.access.gate import Level, Rule
from ariane.broker.acl.table import broker_rules
from ariane.namesrv.acl import namesrv_rules
from ariane.protocol import codes
from ariane.protocol.codes import RESEND_DEAD_LETTERS, RequestCode

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
OWN = {value: name for name, value in vars(codes).items() if type(value) is int and value >= RESEND_DEAD_LETTERS}
"""Names of the codes that are not RocketMQ's."""
TABLES = {"broker": broker_rules, "namesrv": namesrv_rules}


def table(rules: Mapping[int, Rule]) -> str:
    """One line a request code, ordered by number."""
    rows = [
        f"| {int(code)} {_name(code)} | {rules[code].level.value} | {_rights(rules[code])} |" for code in sorted(rules)
    ]
    return "\n".join(["| request | who | rights |", "|---|---|---|", *rows])


def _rights(rule: Rule) -> str:
    return rule.text or ("" if rule.level is Level.OPEN else "none")


def _name(code: int) -> str:
    return OWN[code] if code in OWN else RequestCode(code).name


def rewritten(page: str) -> str:
    """The page with its tables as the code has them."""
    for name, rules in TABLES.items():
        begin, end = f"<!-- table: {name} -->\n", f"<!-- end: {name} -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = f"{head}{begin}\n{table(rules())}\n\n{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
