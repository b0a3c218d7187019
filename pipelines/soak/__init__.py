"""`make soak`: does the server's memory stay flat under load and ill-behaved clients?

rule.py        what counts as flat; fixed before the server is started
served.py      a server in a process of its own
sampling.py    its memory, threads, files and queue, once a second
raw_http.py    HTTP that breaks rules
misbehave.py   clients that go, stall, send nonsense or come in crowds
soak.py        all of it together, from start to verdict
picture.py     memory and files over time
"""
