"""Run the failed tests once more: `make test` records which tests failed, `pytest --again` runs these alone.

A test that fails while three processes and several JVMs share two cores, and passes alone, is a flaky test. It is named
as one and is to be mended; it does not hold a change up. Everything else still does: more than `MOST` failures, a test
that fails again, a test process that crashed, a file that cannot be collected.
"""

import pytest

MOST = 5
RECORD = "ariane/failures"  # in pytest's cache: the tests that failed, and what else went wrong


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--again", action="store_true", help=f"run the tests that failed in the last run, {MOST} at most")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # only the process that starts the others sees all reports
        return
    if config.getoption("--again"):
        config.pluginmanager.register(SecondRun(config))
    elif config.pluginmanager.hasplugin("cacheprovider"):  # `-p no:cacheprovider` leaves nothing to record in
        config.pluginmanager.register(Record(config))


class Record:
    """Note what failed, for a second run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: dict[str, None] = {}
        self._others: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tests[report.nodeid] = None
            if report.when not in ("setup", "call", "teardown"):
                self._others.append(f"a test process crashed while it ran {report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._others.append(f"{report.nodeid} cannot be collected")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            self._others.append(f"the run ended with exit status {int(exitstatus)}")
        if (cache := getattr(self._config, "cache", None)) is not None:  # none with `-p no:cacheprovider`
            cache.set(RECORD, {"tests": list(self._tests), "others": self._others})


class SecondRun:
    """Run exactly the recorded tests and name those that pass."""

    def __init__(self, config: pytest.Config) -> None:
        assert config.cache is not None
        record = config.cache.get(RECORD, {"tests": [], "others": ["no run is recorded"]})
        self._tests: list[str] = record["tests"]
        if record["others"]:
            raise pytest.UsageError(f"no second run: {'; '.join(record['others'])}")
        if not 1 <= len(self._tests) <= MOST:
            raise pytest.UsageError(f"no second run: {len(self._tests)} tests failed, and it is for 1 to {MOST}")
        config.args = self._tests

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        passed, failed, error = (
            {report.nodeid for report in terminalreporter.stats.get(kind, [])} for kind in ("passed", "failed", "error")
        )
        for test in self._tests:
            if test in passed - failed - error:
                terminalreporter.write_line(f"flaky: failed once under load, passed alone: {test}")
