"""The build: all is in pyproject.toml but the modules of the hot path, which mypyc compiles from the same source.

Without a C compiler, or with ARIANE_PURE=1, the plain modules are installed and do the same, slower.
"""

import os
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOT = [
    "src/ariane/env/mapped.py",
    "src/ariane/protocol/java.py",
    "src/ariane/protocol/properties.py",
    "src/ariane/protocol/units.py",
    "src/ariane/protocol/frame_head.py",
    "src/ariane/protocol/fast/matching.py",
    "src/ariane/protocol/fast/digits.py",
    "src/ariane/protocol/fast/property_form.py",
    "src/ariane/protocol/signing.py",
    "src/ariane/protocol/command.py",
    "src/ariane/protocol/fast/sending.py",
    "src/ariane/protocol/fast/pulling.py",
    "src/ariane/protocol/fast/shape.py",
    "src/ariane/protocol/fast/decoder.py",
    "src/ariane/protocol/frame.py",
    "src/ariane/protocol/batch.py",
    "src/ariane/protocol/ids.py",
    "src/ariane/protocol/log_records.py",
    "src/ariane/remoting/outgoing.py",
    "src/ariane/remoting/incoming.py",
    "src/ariane/remoting/connection.py",
    "src/ariane/remoting/waiters.py",
    "src/ariane/client/connect/ids.py",
    "src/ariane/client/producer/checks.py",
    "src/ariane/client/producer/room.py",
    "src/ariane/client/producer/queue_choice.py",
    "src/ariane/client/producer/outgoing.py",
    "src/ariane/client/producer/fast_send.py",
    "src/ariane/client/producer/batcher.py",
    "src/ariane/client/decoding.py",
    "src/ariane/client/consumer/queues/process_queue.py",
    "src/ariane/client/consumer/listen/runners.py",
    "src/ariane/client/consumer/listen/concurrently.py",
    "src/ariane/access/known.py",
    "src/ariane/store/log/log_file.py",
    "src/ariane/store/log/log.py",
    "src/ariane/store/log/commitlog.py",
    "src/ariane/raft/membership.py",
    "src/ariane/raft/entry.py",
    "src/ariane/raft/hard_state.py",
    "src/ariane/raft/messages.py",
    "src/ariane/raft/options.py",
    "src/ariane/raft/terms.py",
    "src/ariane/raft/log.py",
    "src/ariane/raft/outbox.py",
    "src/ariane/raft/state.py",
    "src/ariane/raft/progress.py",
    "src/ariane/raft/ready.py",
    "src/ariane/raft/recovery.py",
    "src/ariane/raft/follower.py",
    "src/ariane/raft/candidate.py",
    "src/ariane/raft/leader.py",
    "src/ariane/raft/node.py",
    "src/ariane/dledger/storage/entry.py",
    "src/ariane/dledger/storage/index.py",
    "src/ariane/dledger/storage/plain_part.py",
    "src/ariane/dledger/storage/log.py",
    "src/ariane/dledger/peers/native.py",
    "src/ariane/dledger/fitting.py",
    "src/ariane/dledger/storage/files.py",
    "src/ariane/dledger/pending_appends.py",
    "src/ariane/dledger/writer.py",
    "src/ariane/dledger/peers/peer.py",
    "src/ariane/dledger/member.py",
    "src/ariane/store/queue/consumequeue.py",
    "src/ariane/store/queue/table.py",
    "src/ariane/store/queue/open_files.py",
    "src/ariane/store/quick_fill.py",
    "src/ariane/store/dispatch.py",
    "src/ariane/store/index/index_file.py",
    "src/ariane/store/index/index.py",
    "src/ariane/store/units/marks.py",
    "src/ariane/store/units/reading.py",
    "src/ariane/store/units/scanning.py",
    "src/ariane/store/units/writing.py",
    "src/ariane/store/units/hashes.py",
    "src/ariane/store/batches.py",
    "src/ariane/store/appender.py",
    "src/ariane/store/queue/entries.py",
    "src/ariane/store/pull.py",
    "src/ariane/store/health.py",
    "src/ariane/store/reader.py",
    "src/ariane/store/results.py",
    "src/ariane/store/store.py",
    "src/ariane/ha/replicated.py",
    "src/ariane/broker/read_cycle.py",
    "src/ariane/broker/send/acknowledge.py",
    "src/ariane/broker/send/flow.py",
    "src/ariane/broker/send/answer.py",
    "src/ariane/broker/send/properties.py",
    "src/ariane/broker/send/target.py",
    "src/ariane/broker/pull/answer.py",
    "src/ariane/broker/pull/target.py",
    "src/ariane/broker/pull/longpoll.py",
    "src/ariane/filter/interface.py",
    "src/ariane/filter/stored_filter.py",
    "src/ariane/broker/tables/groups.py",
    "src/ariane/broker/tables/offsets.py",
    "src/ariane/broker/pull/subscriptions.py",
    "src/ariane/broker/tables/topics.py",
    "src/ariane/broker/stats/counting.py",
    "src/ariane/broker/send/handler.py",
    "src/ariane/broker/pull/handler.py",
]


def compiled() -> list[Extension]:
    """The hot modules as extensions, or nothing where they cannot be built."""
    if os.environ.get("ARIANE_PURE"):
        return []
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if sys.platform != "win32" and shutil.which(compiler) is None:
        print(f"No C compiler ({compiler}): the hot path stays plain Python, which works the same but costs more CPU.")
        return []
    try:
        from mypyc.build import mypycify

        extensions: list[Extension] = mypycify(
            ["--config-file=", "--ignore-missing-imports", *HOT],
            opt_level=os.environ.get("ARIANE_OPT_LEVEL", "2"),
            debug_level="0",
            multi_file=True,  # a C file for each module: less than half the work of one large file, and as fast
        )
    except (Exception, SystemExit) as error:  # the compiler ends the process when it refuses a module
        print(f"The hot path could not be compiled ({error}): it stays plain Python.")
        return []
    for extension in extensions:
        extension.optional = True  # a failing compiler leaves the plain modules
    return extensions


class BuildSideBySide(build_ext):
    """Compile the C files of an extension on all cores; setuptools takes them one by one."""

    def build_extensions(self) -> None:
        compile_in_turn = self.compiler.compile

        def compile_side_by_side(sources: list[str], *args: Any, **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_in_turn([source], *args, **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = compile_side_by_side
        super().build_extensions()


extensions = compiled()
requires = ["msgspec>=0.19"]
if extensions:
    requires.append("librt>=0.16")  # what compiled modules import; plain ones of the client do without
setup(ext_modules=extensions, cmdclass={"build_ext": BuildSideBySide}, install_requires=requires)
