"""What is in the archives, and what the development environment is made of."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from ariane.version import VERSION
from scripts import release

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.slow
def test_the_pure_wheel_is_complete(pure_wheel: Path) -> None:
    assert release.wheel_problems(pure_wheel) == []


@pytest.mark.slow
def test_the_platform_wheel_is_complete_and_compiled(platform_wheel: Path) -> None:
    assert "none-any" not in platform_wheel.name
    assert release.wheel_problems(platform_wheel) == []


@pytest.mark.slow
def test_the_source_archive_has_what_a_build_needs(sdist: Path) -> None:
    assert release.sdist_problems(sdist) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left_out", "said"),
    [("LICENSE", "the licence is missing"), ("py.typed", "py.typed is missing"), ("errors.py", "errors.py is missing")],
)
def test_a_wheel_that_lacks_something_is_not_released(
    pure_wheel: Path, tmp_path: Path, left_out: str, said: str
) -> None:
    broken = tmp_path / pure_wheel.name
    with zipfile.ZipFile(pure_wheel) as whole, zipfile.ZipFile(broken, "w") as part:
        for name in whole.namelist():
            if not name.endswith(left_out):
                part.writestr(name, whole.read(name))
    assert any(said in problem for problem in release.wheel_problems(broken))


def test_the_version_is_in_one_place() -> None:
    assert release.version() == VERSION
    sources = [path for path in (ROOT / "src").rglob("*.py") if f'"{VERSION}"' in path.read_text()]
    assert sources == []


def test_the_changelog_is_dated_at_a_release() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    once = release.dated(changelog, VERSION, "2026-01-31")
    assert f"## {VERSION} (2026-01-31)" in once
    assert release.dated(once, VERSION, "2026-02-01").count("2026-0") == 1
    with pytest.raises(SystemExit, match="has no heading"):
        release.dated(changelog, "99.0.0", "2026-01-31")


def locked() -> dict[str, list[Version]]:
    rows = re.findall(r"^([\w.-]+)==([\w.+!-]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    found: dict[str, list[Version]] = {}
    for name, version in rows:
        found.setdefault(normal(name), []).append(Version(version))
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def development_requirements() -> list[Requirement]:
    rows = [row for rows in PROJECT["project"]["optional-dependencies"].values() for row in rows]
    groups = PROJECT["dependency-groups"]
    waiting = ["test"]
    while waiting:
        for row in groups[waiting.pop()]:
            if isinstance(row, str):
                rows.append(row)
            else:
                waiting.append(row["include-group"])
    return [one for one in map(Requirement, rows) if one.name != "ariane"]


def test_the_lock_has_every_dependency_in_a_version_that_is_allowed() -> None:
    versions = locked()
    for requirement in development_requirements():
        found = versions.get(normal(requirement.name), [])
        assert any(requirement.specifier.contains(version, prereleases=True) for version in found), (
            f"{requirement} is not in requirements.lock: run make lock"
        )


def test_the_lock_checks_every_file_and_names_no_host() -> None:
    text = (ROOT / "requirements.lock").read_text()
    for part in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in part, part
    assert "://" not in text
    assert "--index" not in text
