"""A group of raft members in one process, driven by one seed: clocks, network, disks, crashes, and what must hold.

| file | |
|---|---|
| `world.py` | time, the events in their order, and one run from a seed: faults, then peace |
| `member.py` | the driver of one member: does what the core wants, step by step, and may crash before each |
| `disk.py` | a disk that loses and tears what was not synced |
| `network.py` | loses, delays, reorders, doubles; cuts in both or one direction |
| `faults.py` | what goes wrong, and how often |
| `checker.py` | what must hold always, and in the end |

`python -m tests.raft.simulator 1000` runs the seeds 0 to 999; `python -m tests.raft.simulator --seed 17` shows one.
"""
