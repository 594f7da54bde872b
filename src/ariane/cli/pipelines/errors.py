"""Shorten Spark's errors to one line: Ariane's own error is deep in a JVM stack trace."""

import re
from typing import Any

from typer.core import TyperGroup

from ariane.errors import ArianeError
from ariane.extras import extra

_OURS = re.compile(r"^ariane\.errors\.\w+: (.+)$", re.MULTILINE)


class PipelineGroup(TyperGroup):
    """The pipeline commands. Translates errors of Spark into ArianeError."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with extra("spark", "ariane pipeline"):
                return super().invoke(ctx)
        except Exception as error:
            if not type(error).__module__.startswith("pyspark.errors"):
                raise
            raise ArianeError(in_short(str(error))) from error


def in_short(text: str) -> str:
    """Ariane's last error in the text, or the first line of Spark's."""
    ours = _OURS.findall(text)
    return str(ours[-1] if ours else text.strip().splitlines()[0])
