"""Derives the clients for plain threads (src/ariane/client/sync/) from the asyncio ones.

    python scripts/derive_sync.py          writes the files
    python scripts/derive_sync.py --check  fails when they are not up to date

Each public method of an asyncio client becomes a method of the same name and signature that runs it in the background
loop; `send` does its work in the caller's thread. The types are the asyncio methods' own, so that editors and mypy see
real signatures.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ariane" / "client"
TARGET = SOURCE / "sync"

CLIENTS = {  # class: the file that has it, and its base
    "Lifecycle": ("connect/lifecycle.py", None),
    "Producer": ("producer/producer.py", "Lifecycle"),
    "TransactionProducer": ("producer/transaction.py", "Producer"),
    "PushConsumer": ("consumer/push.py", "Lifecycle"),
    "LitePullConsumer": ("consumer/lite_pull.py", "Lifecycle"),
    "PullClient": ("consumer/pull_client.py", "Lifecycle"),
    "Admin": ("admin/admin.py", "Lifecycle"),
}
PARTS = {  # classes whose methods a client inherits: their files, in the order of its methods
    "Admin": {
        "AdminRequests": "admin/requests.py",
        "TopicAdmin": "admin/topics.py",
        "GroupAdmin": "admin/groups.py",
        "OffsetAdmin": "admin/offsets.py",
        "MessageAdmin": "admin/messages.py",
        "LagAdmin": "admin/lag.py",
        "DeadLetterAdmin": "admin/dead_letters.py",
        "TransactionAdmin": "admin/transactions.py",
        "BrokerAdmin": "admin/brokers.py",
        "NameServerAdmin": "admin/name_servers.py",
        "AccessAdmin": "admin/access.py",
    },
}
HEAD = '''"""{what} for threads, derived from {module} by scripts/derive_sync.py."""

'''
INIT = '''"""The clients for plain threads. Derived from the asyncio ones by scripts/derive_sync.py: do not edit.

`ariane` has their names, each of which is loaded when it is first used.
"""
'''
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
}
HIDDEN = {"needs_threads", "send_in_thread", "submit_in_room"}  # what clients tell each other
SPECIAL = {
    "__aiter__": """
        iterator = self._client.__aiter__()
        while True:
            try:
                message = self._portal.next(iterator)
            except StopAsyncIteration:
                return
            try:
                yield message
            except GeneratorExit:  # the loop broke off: the message comes again
                self._portal.finish(iterator)
                raise
""",
    "__aenter__": "\n        self._portal.run(self._client.__aenter__())\n        return self\n",
    "start": "\n        self._portal.run(self._client.start())\n        return self\n",
    "send": """
        self._portal.check_caller()
        return self._client.send_in_thread(self._portal.run, message, queue, selector, hash_key, timeout)
""",
    "submit": """
        client = self._client
        return self._portal.follow_in(
            client.room,
            len(message.body),
            lambda: client.submit_in_room(message, callback, queue, selector, hash_key, timeout),
            wait=client.options.when_full == "wait",
        )
""",
    "__repr__": "\n        return repr(self._client)\n",
}


def find_class(file: str, name: str) -> tuple[ast.ClassDef, ast.Module]:
    tree = ast.parse((SOURCE / file).read_text())
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), tree


def sync_file(name: str) -> str:
    return Path(CLIENTS[name][0]).stem


def module_name(file: str) -> str:
    return "ariane.client." + file.removesuffix(".py").replace("/", ".")


class Deriver:
    """Derives one client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file, self.base = CLIENTS[name]
        self.sources: dict[str, str] = {}  # name -> import line
        self.used: set[str] = set()

    def derive(self) -> str:
        node, tree = find_class(self.file, self.name)
        self.note_imports(tree, self.file)
        inherited = []
        for part, file in PARTS.get(self.name, {}).items():
            part_node, part_tree = find_class(file, part)
            self.note_imports(part_tree, file)
            inherited += part_node.body
        node.body = [*node.body, *inherited]
        body = self.client(node)
        if self.base is not None:
            self.sources[self.base] = f"from ariane.client.sync.{sync_file(self.base)} import {self.base}"
            self.used.add(self.base)
        imports = sorted({self.sources[name] for name in self.used if name in self.sources})
        head = HEAD.format(what=self.name, module=module_name(self.file))
        return head + "from ariane.client.sync.portal import Portal\n" + "\n".join(imports) + "\n\n\n" + body

    def client(self, node: ast.ClassDef) -> str:
        methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)}
        base = f"({self.base})" if self.base else ""
        parts = [f'class {self.name}{base}:\n    """{ast.get_docstring(node)}"""\n']
        if self.base:
            parts.append(self.constructor(methods.pop("__init__")))
        else:
            parts.append(self.fields())
        parts += [self.method(m) for m in methods.values() if self.is_public(m)]
        return "\n".join(parts)

    def fields(self) -> str:
        alias = self.use_async_class()
        return f"    _portal: Portal\n    _client: {alias}\n"

    def use_async_class(self) -> str:
        alias = f"Async{self.name}"
        self.sources[alias] = f"from {module_name(self.file)} import {self.name} as {alias}"
        self.used.add(alias)
        return alias

    @staticmethod
    def is_public(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        name = method.name
        return name not in HIDDEN and (not name.startswith("_") or name in RENAMED or name == "__repr__")

    def constructor(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        self.note_names(method.args)
        alias = self.use_async_class()
        return (
            f"    _client: {alias}\n\n"
            f"    def __init__({ast.unparse(method.args)}) -> None:\n"
            f"        self._portal = Portal.get()\n"
            f"        self._client = {alias}({self.call_arguments(method.args)})\n"
        )

    def method(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
        self.note_names(method.args)
        name = RENAMED.get(method.name, method.name)
        returns, follows = self.returns(method)
        doc = ast.get_docstring(method, clean=False)
        is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list)
        head = "    @property\n" if is_property else ""
        head += f"    def {name}({ast.unparse(method.args)}) -> {returns}:"
        text = f'\n        """{doc}"""' if doc else ""
        return head + text + self.body(method, is_property, follows, returns)

    def body(
        self, method: ast.FunctionDef | ast.AsyncFunctionDef, is_property: bool, follows: bool, returns: str
    ) -> str:
        if method.name in SPECIAL:
            return SPECIAL[method.name]
        if is_property:
            return f"\n        return self._client.{method.name}\n"
        call = f"self._client.{method.name}({self.call_arguments(method.args)})"
        if returns.startswith("Iterator["):
            return f"\n        yield from self._portal.each({call})\n"
        if isinstance(method, ast.AsyncFunctionDef):
            run = f"self._portal.run({call})"
        elif follows:
            run = f"self._portal.follow(lambda: {call})"
        else:
            run = f"self._portal.call(lambda: {call})"
        return f"\n        {'' if returns == 'None' else 'return '}{run}\n"

    def returns(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, bool]:
        assert method.returns is not None, method.name
        text = ast.unparse(method.returns).strip("'\"")
        if text.startswith("asyncio.Future["):
            self.sources["Future"] = "from concurrent.futures import Future"
            self.used.add("Future")
            self.note_text(text)
            return text.replace("asyncio.Future", "Future"), True
        if text.startswith("AsyncGenerator["):
            self.sources["Iterator"] = "from collections.abc import Iterator"
            text = text.replace("AsyncGenerator", "Iterator").replace(", None]", "]")
        self.note_text(text)
        return text, False

    @staticmethod
    def call_arguments(arguments: ast.arguments) -> str:
        given = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][1:]
        given += [f"{argument.arg}={argument.arg}" for argument in arguments.kwonlyargs]
        if arguments.kwarg is not None:
            given.append(f"**{arguments.kwarg.arg}")
        return ", ".join(given)

    def note_imports(self, tree: ast.Module, file: str) -> None:
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self.sources.setdefault(
                        alias.asname or alias.name, f"from {node.module} import {ast.unparse(alias)}"
                    )
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self.own(node.targets[0].id, file)
            elif isinstance(node, ast.ClassDef):
                self.own(node.name, file)

    def own(self, name: str, file: str) -> None:
        self.sources.setdefault(name, f"from {module_name(file)} import {name}")

    def note_names(self, node: ast.AST) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.Name):
                self.used.add(child.id)

    def note_text(self, text: str) -> None:
        self.note_names(ast.parse(text, mode="eval"))


def formatted(text: str) -> str:
    for command in (["check", "--fix-only", "--select", "I,RUF022"], ["format"]):
        options = ["--quiet", "--config", 'lint.isort.known-first-party=["ariane"]', "--stdin-filename"]
        ruff = [sys.executable, "-m", "ruff", *command, *options, str(TARGET / "x.py"), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def derived() -> dict[Path, str]:
    """Every file and what it should hold."""
    names = [name for name, (file, _) in CLIENTS.items() if (SOURCE / file).exists()]
    files = {TARGET / f"{sync_file(name)}.py": formatted(Deriver(name).derive()) for name in names}
    return files | {TARGET / "__init__.py": INIT}


def main() -> int:
    files = derived()
    if "--check" in sys.argv:
        return 0 if all(path.exists() and path.read_text() == text for path, text in files.items()) else 1
    TARGET.mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
