"""`python -m scripts.site`: builds the documentation site into dist/site, in English and Chinese; warnings are errors.

    --serve         serve it on 127.0.0.1:8000 and build again when a page changes
    --to FOLDER     build into another folder
    --stage FOLDER  where the pages are put together (.cache/site)

Pages are staged first: those of docs/, those that live elsewhere in the repository, and the API reference, which is a
list of all public names that mkdocstrings fills in. Links between them are rewritten to the staged names; a link to a
file that is no page, such as a source file, becomes plain text.
"""

import argparse
import contextlib
import functools
import http.server
import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",
    "examples/README.md": "examples.md",
    "examples/shop/README.md": "examples-shop.md",
    "deploy/README.md": "deploy.md",
    "tests/peers/README.md": "peers.md",
}
"""Pages of the site that are not in docs/. The front page of the site stands for the README."""
PAGES = {
    "client": ("Client API", "Producers and consumers for plain threads, their options and results.", ("ariane",)),
    "admin": ("Admin API", "What `ariane.Admin` returns is described here too.", ("ariane",)),
    "aio": (
        "asyncio API",
        "The same clients as coroutines, with the options and results of `ariane`.",
        ("ariane.aio",),
    ),
    "hooks": (
        "Hooks and strategies",
        "Objects that clients call around sends and consumptions, and strategies that divide queues.",
        ("ariane.client.observe.hooks", "ariane.client.consumer.allocate"),
    ),
    "errors": ("Errors API", "What to do about each: [errors](../errors.md).", ("ariane.errors", "ariane.extras")),
    "app": ("Application API", "See [applications](../app.md).", ("ariane.app",)),
    "guarantee": (
        "Guarantee API",
        "See [the guarantee](../guarantee.md).",
        ("ariane.guarantee", "ariane.guarantee.aio"),
    ),
    "spark": ("Spark API", "See [Spark](../spark.md).", ("ariane.spark",)),
    "testing": (
        "Testing API",
        "See [testing](../testing.md).",
        ("ariane.testing.cluster", "ariane.testing.app", "ariane.testing.clock", "ariane.testing.plugin"),
    ),
}
"""The pages of the API reference: title, a sentence, and the modules whose public names they list."""
ADMIN = ("ariane.client.admin", "ariane.protocol.bodies")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def public_names(module: str) -> list[str]:
    """The public names of a module: `__all__`, else the classes and functions that it defines."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return sorted(loaded.__all__)
    own = (name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module)
    return sorted(name for name in own if not name.startswith("_"))


def home(module: str, name: str) -> str:
    """The module that defines a public name."""
    value = getattr(importlib.import_module(module), name)
    return str(getattr(value, "__module__", module))


def names_of(page: str) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a page of the API reference documents, clients first."""
    _, _, modules = PAGES[page]
    for module in modules:
        found = [(module, name) for name in public_names(module)]
        if page in ("client", "admin"):
            is_admin = page == "admin"
            found = [
                (module, name)
                for module, name in found
                if (name == "Admin" or home(module, name).startswith(ADMIN)) == is_admin
            ]
        yield from sorted(found, key=lambda one: (not home(*one).startswith("ariane.client.sync"), one[1]))


def api_page(page: str) -> str:
    title, sentence, _ = PAGES[page]
    lines = [f"# {title}", "", sentence, ""]
    for module, name in names_of(page):
        lines += [f"::: {documented(module, name)}", ""]
    return "\n".join(lines)


def documented(module: str, name: str) -> str:
    """The dotted path under which mkdocstrings finds a name: its definition, for names that are loaded on demand."""
    if module == "ariane.spark":
        return f"{home(module, name)}.{name}"
    return f"{module}.{name}"


def stage(to: Path) -> dict[str, Path]:
    """Put the pages together, and return the configuration file of each language."""
    shutil.rmtree(to, ignore_errors=True)
    config = yaml.safe_load((DOCS / "site.yml").read_text())
    translated = sorted(page.name for page in (DOCS / "zh").glob("*.md"))
    navigation = {"en": config.pop("nav"), "zh": config.pop("nav_zh")}
    python = config["plugins"][-1]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT / "src")]
    python["options"]["extensions"] = [str(ROOT / "scripts" / "doctests.py")]
    config["theme"]["custom_dir"] = "templates"
    sources = {DOCS / page.name: page.name for page in DOCS.glob("*.md")}
    sources |= {ROOT / source: name for source, name in ELSEWHERE.items()}
    stage_pages(to / "en", sources, {source: name for source, name in sources.items() if source != ROOT / "README.md"})
    chinese = {page: page.name for page in (DOCS / "zh").glob("*.md")}
    english = {source: f"../{name}" for source, name in sources.items()}
    stage_pages(to / "zh", {**english, **chinese}, chinese)
    (to / "en" / "api").mkdir()
    for page in PAGES:
        (to / "en" / "api" / f"{page}.md").write_text(api_page(page))
    from scripts import names  # it reads the tables above

    (to / "en" / "names.md").write_text(names.page())
    for picture in (*DOCS.glob("*.png"), *DOCS.glob("*.svg")):
        shutil.copy(picture, to / "en")
    shutil.copytree(DOCS / "pictures", to / "en" / "pictures")
    shutil.copytree(DOCS / "theme", to / "templates", ignore=shutil.ignore_patterns("*.css", "*.js", "*.svg"))
    files = {}
    for language, prefix in (("en", ""), ("zh", "../")):
        shutil.copytree(DOCS / "theme", to / language / "theme", ignore=shutil.ignore_patterns("*.html", "partials"))
        one = {**config, "docs_dir": language, "site_dir": f"built-{language}"}
        one["theme"] = {**config["theme"], "language": language}
        one["nav"] = complete(navigation[language], to / language)
        one["extra"] = {
            "generator": False,
            "translated": [page.removesuffix(".md") + ".html" for page in translated],
            "to_english": prefix,
            "alternate": [
                {"name": "English", "link": f"{prefix}index.html", "lang": "en"},
                {"name": "简体中文", "link": f"{prefix}zh/index.html", "lang": "zh"},
            ],
        }
        if language == "zh":
            one["plugins"] = [plugin for plugin in config["plugins"] if "mkdocstrings" not in plugin]
            one["site_description"] = "用 Python 实现的 Apache RocketMQ 4.9"
        files[language] = to / f"{language}.yml"
        files[language].write_text(yaml.safe_dump(one, allow_unicode=True, sort_keys=False))
    return files


def stage_pages(to: Path, names: dict[Path, str], pages: dict[Path, str]) -> None:
    """Write pages under their names and rewrite links between them; `names` also has pages of the other language."""
    to.mkdir(parents=True)
    for source, name in pages.items():
        parts = FENCE.split(source.read_text())
        parts[::2] = [LINK.sub(functools.partial(rewritten, source.parent, names), part) for part in parts[::2]]
        (to / name).write_text("".join(parts))


def rewritten(folder: Path, names: dict[Path, str], link: re.Match[str]) -> str:
    image, text, target = link.groups()
    path, mark, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    source = (folder / path).resolve()
    if source in names:
        name = names[source]
        if name.startswith("../"):  # a page of the other site, which the generator does not know
            name = name.removesuffix(".md") + ".html"
        return f"[{text}]({name}{mark}{anchor})"
    if image:
        inside = source.relative_to(DOCS).as_posix()
        return f"![{text}]({'../' if folder.name == 'zh' else ''}{inside})"
    return str(text)


def complete(nav: list[Any], folder: Path) -> list[Any]:
    """The navigation without pages that are not there; pages that it does not name come last."""

    def kept(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found = []
        for entry in entries:
            [(title, what)] = entry.items()
            if isinstance(what, list):
                found.append({title: kept(what)})
            elif (folder / what).exists():
                found.append(entry)
        return found

    text = str(nav)
    more = [page.name for page in sorted(folder.glob("*.md")) if f"'{page.name}'" not in text]
    return [*kept(nav), *([{"More": more}] if more else [])]


def build(to: Path, staged: Path) -> None:
    """Build both languages; exit with the generator's words when something is wrong."""
    zensical = Path(sys.executable).with_name("zensical")
    for language, config in stage(staged).items():
        command = [str(zensical), "build", "--strict", "--clean", "-f", str(config)]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
        )
        if ended.returncode != 0:
            sys.exit(ended.stdout + ended.stderr)
        source, target = staged / f"built-{language}", to if language == "en" else to / language
        if language == "en":
            shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(source, target)


def serve(to: Path, staged: Path) -> None:
    """Serve the site, and build it again after a change of a page."""

    def newest() -> float:
        places = (*DOCS.rglob("*.*"), *(ROOT / name for name in ELSEWHERE), *(ROOT / "src").rglob("*.py"))
        return max(path.stat().st_mtime for path in places)

    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(to))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("http://127.0.0.1:8000/index.html, until Ctrl-C")
    seen = newest()
    while True:
        time.sleep(1)
        if (now := newest()) > seen:
            seen = now
            try:
                build(to, staged)
            except SystemExit as problem:
                print(problem)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--to", type=Path, default=ROOT / "dist" / "site")
    parser.add_argument("--stage", type=Path, default=ROOT / ".cache" / "site")
    arguments = parser.parse_args()
    build(arguments.to, arguments.stage)
    print(f"built {arguments.to}")
    if arguments.serve:
        with contextlib.suppress(KeyboardInterrupt):
            serve(arguments.to, arguments.stage)
