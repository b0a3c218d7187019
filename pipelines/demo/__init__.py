"""A rollout on one machine: two small servers, a router, traffic, and the flows that decide.

model.py      a target and a draft, made on the spot from a seed
faults.py     what can be wrong with the candidate on purpose
engine.py     a server of either arm, with or without a fault
traffic.py    the trace that is replayed, and how it is made
replay.py     sends the trace at its own times, round after round
ready.py      how a program shows that it is ready
ending.py     how processes end
processes.py  starts programs, knows them again, and ends them all
papers.py     plan, seal, keys and manifest of one run
approver.py   signs for the person who may approve
stack.py      what runs, in the order of its start
drive.py      starts one flow after the other
story.py      what is told meanwhile
"""
