"""The hot modules are what the compiler takes: an install without it is plain Python, and nobody would notice."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRANSLATE = """
import ast, sys
from pathlib import Path
from mypyc.build import mypycify

tree = ast.parse(Path("setup.py").read_text())
hot = next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "HOT")
mypycify(["--config-file=", "--ignore-missing-imports", *hot], target_dir=sys.argv[1])
"""


@pytest.mark.timeout(1200)  # the compiler is busy for half a minute, and longer on a busy machine
def test_every_hot_module_can_be_translated(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRANSLATE, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert list(tmp_path.rglob("*.c"))
