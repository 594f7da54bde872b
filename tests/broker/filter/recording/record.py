"""Records what Apache's rocketmq-filter 4.9.7 says of the corpus into `apache_verdicts.json`. Run by hand, needs a JDK.

    mvn dependency:get -Dartifact=org.apache.rocketmq:rocketmq-filter:4.9.7
    python -m tests.broker.filter.recording.record FOLDER_WITH_THE_JARS

The jars are rocketmq-filter 4.9.7 and what it needs (`mvn dependency:copy-dependencies`). A row of the file is an
expression and a letter for each property set: T true, F false, N unknown, X failed; or `!` when it does not compile.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

from tests.broker.filter.recording.corpus import PROPERTY_SETS, at_random, broken, by_hand

HERE = Path(__file__).parent
FIXTURE = HERE.parent / "apache_verdicts.json"


def main(jars: str) -> None:
    """Runs Verdicts.java over the corpus and writes the fixture."""
    expressions = corpus()
    lines = [str(len(PROPERTY_SETS)), *map(_set_line, PROPERTY_SETS), *map(_encoded, expressions)]
    command = ["java", "-cp", f"{jars}/*", str(HERE / "Verdicts.java")]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    verdicts = done.stdout.splitlines()
    assert len(verdicts) == len(expressions)
    FIXTURE.write_text(_fixture(expressions, verdicts), encoding="utf-8")


def corpus() -> list[str]:
    """All expressions, each once."""
    made = at_random(700, seed=1)
    return [*dict.fromkeys([*by_hand(), *made, *broken([*made, *by_hand()], 500, seed=2)])]


def _fixture(expressions: list[str], verdicts: list[str]) -> str:
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in zip(expressions, verdicts, strict=True))
    sets = ",\n".join(json.dumps(properties, ensure_ascii=False) for properties in PROPERTY_SETS)
    return f'{{"properties": [\n{sets}\n],\n"verdicts": [\n{rows}\n]}}\n'


def _set_line(properties: dict[str, str]) -> str:
    return ",".join(f"{_encoded(name)}:{_encoded(value)}" for name, value in properties.items())


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


if __name__ == "__main__":
    main(sys.argv[1])
