"""The page that lists the metrics is that of the code."""

from scripts.metrics_table import PAGE, page_with_tables


def test_the_tables_in_the_docs_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert page == page_with_tables(page), "run python -m scripts.metrics_table"
