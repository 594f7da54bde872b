"""A thread that runs slow jobs in order and reports their results to the event loop."""

import logging
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from queue import SimpleQueue

log = logging.getLogger("ariane.store")

Job = Callable[[], None]
Done = Callable[[BaseException | None], None]


class Worker:
    """Runs jobs in order. When it is not started, the caller runs the job at once, which makes tests deterministic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = False
        self._jobs: SimpleQueue[tuple[Job, Done | None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: AbstractEventLoop | None = None
        self._reports: SimpleQueue[tuple[Done, BaseException | None]] = SimpleQueue()

    def start(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.running = True
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done | None = None) -> None:
        """Run `job`; `done` is called on the loop with None or the exception of the job."""
        if self.running:
            self._jobs.put((job, done))
        else:
            error = _attempt(job)
            if done is not None:
                done(error)
            elif error is not None:
                raise error

    def stop(self) -> None:
        """Return when all jobs are done. Later jobs are run by their callers."""
        self.running = False
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def drain(self) -> None:
        """Return when no job is left and all results are reported. Only the thread of the loop may call this."""
        while self.running:
            idle = self.signal()
            self._jobs.put((idle.set, None))
            idle.wait()
            reported = self._deliver()
            if not reported and self._jobs.empty():
                return

    @staticmethod
    def signal() -> threading.Event:
        return threading.Event()

    def _run(self) -> None:
        while True:
            item = self._jobs.get()
            if item is None:
                return
            job, done = item
            error = _attempt(job)
            if done is not None:
                self._report(done, error)
            elif error is not None:
                log.error("%s: %s", self.name, error)

    def _report(self, done: Done, error: BaseException | None) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._reports.put((done, error))
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> bool:
        """Report the finished jobs; True if there were any. `drain` may have reported them already."""
        reported = False
        while not self._reports.empty():
            done, error = self._reports.get()
            done(error)
            reported = True
        return reported


def _attempt(job: Job) -> BaseException | None:
    try:
        job()
    except Exception as error:
        return error
    return None
