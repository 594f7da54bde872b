"""Runs the scenario files: commands, and what they must say. In the style of etcd-io/raft's testdata.

A file is a list of blocks: a command, `----`, the expected lines, an empty line. Lines that begin with # explain.
`python -m tests.raft.scenario` writes what the commands say now into the files; look at the difference before a commit.

| command | |
|---|---|
| `group abc [learners d] [others e] [option=value ...]` | start members; `others` belong to no group yet |
| `elect a` | make a the leader, without a word |
| `campaign a` | let a's election time-out pass |
| `quiet abc [time]` | let time pass without anything happening, so that no leader counts as heard |
| `tick a 100` | let time pass at a |
| `propose a [3]` | propose entries at a |
| `disk a`, `store a`, `sync a` | complete a's writes: all, term and vote, the log |
| `deliver [a->b] [Kind] [count]` | deliver waiting messages, those that match |
| `drop [a->b] [Kind] [count]` | lose them |
| `stabilize` | complete all writes and deliver all messages, again and again |
| `cut a b`, `cut a->b`, `heal` | cut connections; connect all |
| `crash a`, `restart a` | stop a, losing what is not synced; start it on its disk |
| `lose-term a`, `wipe a` | a stopped member loses its term file; its whole disk |
| `transfer a b` | a hands leadership to b |
| `change a voters abd learners c` | a proposes a membership |
| `compact a 5` | a deletes the entries before 5 |
| `status`, `log a` | show roles, terms, ends; show a's log |
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

from ariane.raft import HardState, LogStart, Membership, Message, RaftError
from tests.raft.group import OPTIONS, Group, text

FOLDER = Path(__file__).parent / "scenarios"


class Scenario:
    """The state of one file's run."""

    def __init__(self) -> None:
        self.group = Group("a")

    def run(self, line: str) -> str:
        """Run one command; return what it says."""
        name, *words = line.split()
        self.group.lines.clear()
        try:
            getattr(self, "do_" + name.replace("-", "_"))(*words)
        except RaftError as error:
            self.group.say(f"{type(error).__name__}: {error}")
        return "\n".join(self.group.lines) or "ok"

    def do_group(self, voters: str, *words: str) -> None:
        """Start a group."""
        pairs = [word.split("=") for word in words if "=" in word]
        options = replace(OPTIONS, **{key: type(getattr(OPTIONS, key))(int(value)) for key, value in pairs})  # type: ignore[arg-type]
        names = dict(zip(words[::2], words[1::2], strict=False))
        self.group = Group(voters, names.get("learners", ""), options, names.get("others", ""))

    def do_elect(self, id: str) -> None:
        """Make a member the leader and let everything settle."""
        self.group.elect(id)
        self.group.lines.clear()

    def do_campaign(self, id: str) -> None:
        """Start an election."""
        self.group.campaign(id)

    def do_quiet(self, ids: str, time: str = "1000") -> None:
        """Let no leader be heard for a while, without elections."""
        for id in ids:
            self.group.quiet(id, int(time))

    def do_tick(self, id: str, time: str) -> None:
        """Let time pass."""
        self.group.tick(id, int(time))

    def do_propose(self, id: str, count: str = "1") -> None:
        """Propose entries."""
        self.group.propose(id, int(count))

    def do_disk(self, id: str) -> None:
        """Complete all writes of a member."""
        self.group.disk(id)

    def do_store(self, id: str) -> None:
        """Complete the write of term and vote."""
        self.group.members[id].store()
        self.group.work(self.group.members[id])

    def do_sync(self, id: str) -> None:
        """Complete the log's writes."""
        self.group.members[id].sync()
        self.group.work(self.group.members[id])

    def _matching(self, words: tuple[str, ...]) -> list[Message]:
        count = int(words[-1]) if words and words[-1].isdigit() else None
        waiting = [
            m for m in self.group.messages if all(word in text(m).split() for word in words if not word.isdigit())
        ]
        return waiting[:count]

    def do_deliver(self, *words: str) -> None:
        """Deliver messages."""
        for message in self._matching(words):
            self.group.deliver(message)

    def do_drop(self, *words: str) -> None:
        """Lose messages."""
        for message in self._matching(words):
            self.group.messages.remove(message)
            self.group.say(f"{text(message)} is lost")

    def do_stabilize(self) -> None:
        """Let everything happen."""
        self.group.stabilize()

    def do_cut(self, *words: str) -> None:
        """Cut connections."""
        if len(words) == 1:
            source, target = words[0].split("->")
            self.group.cut.add((source, target))
        else:
            for a in words[0]:
                for b in words[1]:
                    self.group.cut |= {(a, b), (b, a)}

    def do_heal(self) -> None:
        """Connect all."""
        self.group.cut.clear()

    def do_crash(self, *ids: str) -> None:
        """Stop members."""
        for id in "".join(ids):
            self.group.members[id].crash()

    def do_restart(self, *ids: str) -> None:
        """Start members on what their disks have."""
        for id in "".join(ids):
            self.group.members[id].boot()
            self.group.work(self.group.members[id])

    def do_lose_term(self, id: str) -> None:
        """Delete the term file."""
        self.group.members[id].hard_state = None

    def do_wipe(self, id: str) -> None:
        """Empty the disk."""
        member = self.group.members[id]
        member.hard_state, member.log, member.start = None, [], LogStart(member.start.membership)

    def do_transfer(self, id: str, target: str) -> None:
        """Hand leadership over."""
        self.group[id].transfer(target)
        self.group.work(self.group.members[id])

    def do_change(self, id: str, *words: str) -> None:
        """Change the membership."""
        names = dict(zip(words[::2], words[1::2], strict=True))
        wanted = Membership(frozenset(names["voters"]), frozenset(names.get("learners", "")))
        self.group.positions += 1
        self.group[id].change_membership(wanted, self.group.positions - 1, 100)
        self.group.work(self.group.members[id])

    def do_compact(self, id: str, index: str) -> None:
        """Delete old entries."""
        member = self.group.members[id]
        start = member.node.log.start_at(int(index), 0)
        member.node.compact(start)
        del member.log[: start.index - member.start.index]
        member.start = start

    def do_status(self) -> None:
        """Show all members."""
        for id, member in sorted(self.group.members.items()):
            if member.up is None:
                self.group.say(f"{id} down")
                continue
            node, log = member.node, member.node.log
            state: HardState = node.hard_state
            flows = []
            for other in sorted(self.group.members):
                if progress := node.progress(other):
                    flows.append(f"{other} {progress[0]} at {progress[1]}")
            self.group.say(
                f"{id} {node.role.value}, {state}, log {log.start.index} to {log.last_index}/{log.last_term}, "
                f"durable {log.persisted_index}, committed {log.commit_index}"
                + (f"; {', '.join(flows)}" if flows else "")
            )

    def do_log(self, id: str) -> None:
        """Show a member's log on its disk."""
        self.group.say(" ".join(str(entry) for entry in self.group.members[id].log))


BLOCK = re.compile(r"((?:#[^\n]*\n|\n)*)([^\n#]+)\n----\n((?:[^\n]+\n)*)")


def run(source: str) -> str:
    """Run a file's commands; return the file as it should be."""
    scenario = Scenario()
    return BLOCK.sub(lambda block: f"{block[1]}{block[2]}\n----\n{scenario.run(block[2])}\n", source)


if __name__ == "__main__":
    for path in [FOLDER / name for name in sys.argv[1:]] or sorted(FOLDER.glob("*.txt")):
        path.write_text(run(path.read_text()))
