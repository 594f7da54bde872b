"""A group of members under full control: a test says what each does, what is stored, and which messages arrive."""

from ariane.raft import (
    AppendEntries,
    AppendReply,
    Entry,
    HardState,
    Heartbeat,
    HeartbeatReply,
    Log,
    LogStart,
    Membership,
    Message,
    Node,
    Options,
    Removed,
    RequestStatus,
    RequestVote,
    ResetLog,
    Role,
    Status,
    TimeoutNow,
    Vote,
    Write,
)

OPTIONS = Options(heartbeat_interval=100, election_timeout=1000, lease_margin=100)


def text(message: Message) -> str:
    """Describe a message in a line."""
    match message:
        case RequestVote():
            kind = "RequestPreVote" if message.pre else "RequestVote"
            said = f"last {message.last_log_index}/{message.last_log_term}{' transfer' if message.transfer else ''}"
        case Vote():
            kind, said = "PreVote" if message.pre else "Vote", "granted" if message.granted else "refused"
        case AppendEntries():
            kind = "AppendEntries"
            entries = "".join(f" [{entry}]" for entry in message.entries)
            said = f"after {message.prev_log_index}/{message.prev_log_term}{entries} commit {message.leader_commit}"
        case AppendReply():
            hint = f", at most {message.hint_index}/{message.hint_term}"
            kind, said = "AppendReply", f"{'match' if message.success else 'not'} {message.match_index}"
            said += "" if message.success else hint
        case Heartbeat():
            kind, said = "Heartbeat", f"commit {message.leader_commit}"
        case HeartbeatReply():
            kind, said = "HeartbeatReply", ""
        case ResetLog():
            kind, said = "ResetLog", f"to {message.start.index}, before it term {message.start.previous_term}"
        case TimeoutNow():
            kind, said = "TimeoutNow", f"last {message.last_log_index}"
        case RequestStatus():
            kind, said = "RequestStatus", f"last {message.last_log_index}"
        case Status():
            kind, said = "Status", f"last {message.last_log_index}{' leader' if message.leader else ''}"
        case Removed():
            kind, said = "Removed", f"by {message.entry_index}/{message.entry_term}"
    return f"{message.source}->{message.target} {kind} term {message.term} {said}".rstrip()


class Member:
    """A node with its disk: what is stored, and what was written but not synced."""

    def __init__(self, id: str, membership: Membership, options: Options, hard_state: HardState) -> None:
        self.id = id
        self.options = options
        self.hard_state: HardState | None = hard_state
        self.start = LogStart(membership)
        self.log: list[Entry] = []
        self.unsynced: list[Write] = []
        self.storing: HardState | None = None
        self.now = 0
        self.up: Node | None = None
        self.boot()

    @property
    def node(self) -> Node:
        """The running node."""
        assert self.up, f"{self.id} is down"
        return self.up

    def boot(self) -> None:
        """Start on what the disk has."""
        log = Log(self.start, self.start.index + len(self.log) - 1, self.read, self.log)
        hard_state = self.hard_state or HardState(abstaining=True)
        self.up = Node(self.id, log, hard_state, self.options, lambda: 0.5, self.now)

    def read(self, index: int) -> Entry:
        """Read an entry from the disk."""
        return self.log[index - self.start.index]

    def crash(self) -> None:
        """Stop, and lose what was not synced."""
        self.up = None
        self.unsynced.clear()
        self.storing = None

    def store(self) -> None:
        """Make term and vote durable."""
        if self.storing:
            self.hard_state, self.storing = self.storing, None
            self.node.vote_stored(self.hard_state)

    def sync(self) -> None:
        """Make the written log durable."""
        for write in self.unsynced:
            if write.reset:
                self.start, self.log = write.reset, []
            if write.truncate_from is not None:
                del self.log[write.truncate_from - self.start.index :]
            self.log += write.entries
        if self.unsynced:
            number = self.unsynced[-1].number
            self.unsynced.clear()
            self.node.persisted(number)


class Group:
    """Members and the messages between them."""

    def __init__(self, voters: str, learners: str = "", options: Options = OPTIONS, others: str = "") -> None:
        membership = Membership(frozenset(voters), frozenset(learners))
        self.options = options
        self.members = {id: Member(id, membership, options, HardState()) for id in voters + learners + others}
        self.messages: list[Message] = []
        self.cut: set[tuple[str, str]] = set()
        self.positions = 0
        self.markers = True  # a new leader proposes an entry at once
        self.lines: list[str] = []  # what happened
        for member in self.members.values():
            self.work(member)
        self.lines.clear()

    def __getitem__(self, id: str) -> Node:
        return self.members[id].node

    def say(self, line: str) -> None:
        """Note what happened."""
        self.lines.append(line)

    def work(self, member: Member) -> None:
        """Take what the core wants; writes wait for `sync` and `store`, messages for `deliver`."""
        while ready := member.node.ready():
            if ready.role:
                role = ready.role
                leader = f", leader {role.leader}" if role.leader and role.leader != member.id else ""
                self.say(f"{member.id} is {role.role.value} of term {role.term}{leader}")
            if ready.hard_state:
                self.say(f"{member.id} stores {ready.hard_state}")
                member.storing = ready.hard_state
            if ready.write:
                write = ready.write
                reset = f" reset to {write.reset.index}" if write.reset else ""
                truncate = f" truncate {write.truncate_from}" if write.truncate_from is not None else ""
                append = f" append {' '.join(map(str, write.entries))}" if write.entries else ""
                self.say(f"{member.id} writes{reset}{truncate}{append}")
                member.unsynced.append(write)
            self.messages += ready.messages
            if ready.commit_index is not None:
                self.say(f"{member.id} commits {ready.commit_index}")
            if ready.role and ready.role.role is Role.LEADER and self.markers:
                self.propose(member.id, 1)

    def propose(self, id: str, count: int) -> None:
        """Propose entries at a member."""
        blocks = [(self.positions + number, 100) for number in range(count)]
        self.positions += count
        self[id].propose(blocks)
        self.work(self.members[id])

    def tick(self, id: str, time: int) -> None:
        """Let time pass for one member."""
        member = self.members[id]
        member.now += time
        member.node.tick(member.now)
        self.work(member)

    def campaign(self, id: str) -> None:
        """Let a member's election time-out pass."""
        member = self.members[id]
        self.tick(id, max(0, member.node.deadline - member.now))

    def quiet(self, id: str, time: int) -> None:
        """Let time pass at a member, but no election time-out, so that it may vote again."""
        member = self.members[id]
        if member.node.role is not Role.LEADER:
            time = max(0, min(time, member.node.deadline - 1 - member.now))
        self.tick(id, time)

    def disk(self, id: str) -> None:
        """Complete a member's writes."""
        member = self.members[id]
        while member.storing or member.unsynced:
            member.store()
            self.work(member)
            member.sync()
            self.work(member)

    def deliver(self, message: Message, show: bool = True) -> None:
        """Let a message arrive."""
        self.messages.remove(message)
        member = self.members.get(message.target)
        if member is None or member.up is None or (message.source, message.target) in self.cut:
            self.say(f"{text(message)} is lost")
            return
        if show:
            self.say(text(message))
        member.node.tick(member.now)
        member.node.step(message)
        self.work(member)

    def stabilize(self, disks: bool = True) -> None:
        """Complete all writes and deliver all messages until nothing is left."""
        busy = True
        while busy:
            busy = bool(self.messages)
            for member in self.members.values():
                if disks and member.up and (member.storing or member.unsynced):
                    busy = True
                    self.disk(member.id)
            for message in list(self.messages):
                self.deliver(message)

    def elect(self, id: str) -> None:
        """Make a member the leader of a new term: nobody has heard of one for long enough."""
        if self[id].role is Role.LEADER:
            self.tick(id, self.options.election_timeout)  # no majority is heard: it steps down
        for member in self.members.values():
            if member.up and member.id != id:
                self.quiet(member.id, self.options.election_timeout)
        self.campaign(id)
        self.stabilize()
        assert self[id].role is Role.LEADER, self.lines

    def logs(self) -> dict[str, list[str]]:
        """Return index/term of each entry on each disk."""
        return {id: [str(entry) for entry in member.log] for id, member in self.members.items()}
