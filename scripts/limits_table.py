"""Write the table of limits into docs/security.md from the one in the code: `python -m scripts.limits_table`."""

from pathlib import Path

from ariane.broker.config.table import BROKER_TABLE
from ariane.namesrv.config import NAMESRV_TABLE
from ariane.remoting.limits import BROKER_LIMITS, NAMESRV_LIMITS, SERVER_LIMITS, Limit
from ariane.settings import Host, OptionTable

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
BEGIN = "<!-- limits: written by scripts/limits_table.py -->\n"
END = "<!-- end of limits -->\n"


def table() -> str:
    """All limits as a table in Markdown."""
    sections = (
        ("Broker and name server", SERVER_LIMITS, BROKER_TABLE),
        ("Broker", BROKER_LIMITS, BROKER_TABLE),
        ("Name server", NAMESRV_LIMITS, NAMESRV_TABLE),
    )
    lines = ["| bounds | option = default | beyond it | `reason` |", "|---|---|---|---|"]
    for title, limits, options in sections:
        lines.append(f"| **{title}** | | | |")
        lines.extend(row(limit, options) for limit in limits)
    return "\n".join(lines) + "\n"


def row(limit: Limit, options: OptionTable) -> str:
    """One limit with the default of its option."""
    option = options.find(limit.option) if limit.option else None
    setting = f"`{option.name} = {option.default_for(Host())}`" if option is not None else ""
    return f"| {limit.bounds} | {setting} | {limit.refusal} | `{limit.reason}` |"


def page_with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
