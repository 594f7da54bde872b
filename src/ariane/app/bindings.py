"""Functions bound by name to destinations in the settings, as in Spring Cloud Stream.

`<function>-in-0` is where a function's messages come from, `<function>-out-0` where its results go: a sink has an
input, a source an output, a processor both.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Callable
from typing import Any

from ariane.app.errors import AppError, SettingsError
from ariane.app.listen.listener import Listener, ListenerKeywords, Publication
from ariane.app.runtime import Runtime
from ariane.app.send.outgoing import SendKeywords
from ariane.app.settings import BindingSettings, Settings

log = logging.getLogger("ariane.app")

_BINDING = re.compile(r"(?P<function>.+)-(?P<direction>in|out)-(?P<index>\d+)")


class Bindings:
    """The functions that settings may bind."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._sources: list[asyncio.Task[None]] = []

    def add(self, function: Callable[..., Any]) -> None:
        """A function under its own name."""
        name = getattr(function, "__name__", type(function).__name__)
        if name in self._functions:
            raise AppError(f"there are two functions named {name!r}: a binding could mean either")
        self._functions[name] = function

    def listeners(self, settings: Settings) -> list[Listener[..., Any]]:
        """A listener for each function with an input."""
        found = []
        for name, ends in self._bound(settings).items():
            if "in" not in ends:
                continue
            came = ends["in"]
            chosen = came.consumer.model_dump(exclude_unset=True)
            keywords: ListenerKeywords = {"name": name}
            keywords.update(chosen)  # type: ignore[typeddict-item]
            if (group := came.group or came.consumer.group) is None:
                raise SettingsError(f"bindings.{name}-in-0.group is missing: a consumer needs a group")
            keywords["group"] = group
            if came.cluster is not None:
                keywords["cluster"] = came.cluster
            topics = tuple(topic.strip() for topic in came.destination.split(","))
            listener = Listener(self._functions[name], topics, keywords)
            if (goes := ends.get("out")) is not None:
                listener.publications.append(_publication(goes))
            found.append(listener)
        return found

    def outputs(self, settings: Settings) -> list[tuple[str, BindingSettings]]:
        """Functions with an output, and where it goes."""
        return [(name, ends["out"]) for name, ends in self._bound(settings).items() if "out" in ends]

    def returned_type(self, name: str) -> Any:
        """What a function says that it returns."""
        return inspect.get_annotations(self._functions[name], eval_str=True).get("return", Any)

    def start_sources(self, app: Runtime) -> None:
        """Run each function that has an output and no input."""
        for name, ends in self._bound(app.settings).items():
            if "in" not in ends:
                self._sources.append(asyncio.create_task(self._run_source(app, name, ends["out"])))

    async def stop_sources(self) -> None:
        """Stop what `start_sources` started."""
        sources, self._sources = self._sources, []
        for task in sources:
            task.cancel()
        await asyncio.gather(*sources, return_exceptions=True)

    async def _run_source(self, app: Runtime, name: str, binding: BindingSettings) -> None:
        """Send what a source yields, or what it returns each time it is polled; a failure is logged and repeated."""
        function, template = self._functions[name], app.cluster(binding.cluster)
        goes = _publication(binding)
        while True:
            try:
                if inspect.isasyncgenfunction(function):
                    async for payload in function():
                        await template.send(goes.destination, payload, **goes.keywords_for(payload))
                    return
                payload = (
                    await function() if inspect.iscoroutinefunction(function) else await asyncio.to_thread(function)
                )
                if payload is not None:
                    await template.send(goes.destination, payload, **goes.keywords_for(payload))
            except Exception:
                log.exception("source %s failed; it is tried again in %g s", name, binding.poll_interval)
            await asyncio.sleep(binding.poll_interval)

    def _bound(self, settings: Settings) -> dict[str, dict[str, BindingSettings]]:
        found: dict[str, dict[str, BindingSettings]] = {}
        for key, binding in settings.bindings.items():
            match = _BINDING.fullmatch(key)
            if match is None or match["index"] != "0":
                raise SettingsError(f"bindings.{key}: write <function>-in-0 or <function>-out-0")
            name = match["function"]
            if name not in self._functions:
                known = ", ".join(self._functions) or "none"
                raise SettingsError(
                    f"bindings.{key}: no function {name!r} is decorated with @app.function ({known} is)"
                )
            found.setdefault(name, {})[match["direction"]] = binding
        return found


def _publication(binding: BindingSettings) -> Publication:
    keywords: SendKeywords = {} if binding.content_type is None else {"content_type": binding.content_type}
    return Publication(binding.destination, binding.cluster, keywords, binding.hash_key)
