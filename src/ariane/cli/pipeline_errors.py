"""Errors out of Spark in one line: what Ariane said in a worker lies deep in a trace of the JVM."""

import re
from typing import Any

from typer.core import TyperGroup

from ariane.errors import ArianeError

_OURS = re.compile(r"^ariane\.errors\.\w+: (.+)$", re.MULTILINE)


class PipelineGroup(TyperGroup):
    """The pipelines. A failure of Spark ends them like one of Ariane's own."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not type(error).__module__.startswith("pyspark.errors"):
                raise
            raise ArianeError(in_short(str(error))) from error


def in_short(text: str) -> str:
    """The last thing that Ariane itself said, or the first line of Spark's own words."""
    ours = _OURS.findall(text)
    return str(ours[-1] if ours else text.strip().splitlines()[0])
