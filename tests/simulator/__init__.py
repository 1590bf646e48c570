"""Whole clusters in one process under a seeded scheduler and a fake clock; see docs/simulator.md.

plan.py            a seed to a schedule: settings, what clients ask, what goes wrong
cluster.py         nodes, links, time: what engine, sockets and threads are otherwise
disk.py            what survives a crash: SQLite in memory, or real files
faults.py          carries out what a plan says
clients.py         the clients, and the history of what they were told
invariants.py      Raft's promises, after every step
model.py           what the committed log means, worked out a second time
linearizable.py    whether a history has an order that explains it
run.py             one plan from beginning to verdict
shrink.py          the shortest schedule that still fails
ablations.py       our fixes removed and bugs planted, and how soon each is found
"""
