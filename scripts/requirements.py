"""Print what the extras of pyproject.toml require, so that installing them does not build the package once more."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for requirements in project["optional-dependencies"].values():
    for requirement in requirements:
        if not requirement.startswith("ariane"):
            print(requirement)
