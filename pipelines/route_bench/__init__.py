"""What the router adds to the time of a request, beside LiteLLM's proxy.

upstream.py   a server that answers after a fixed time, so that what varies is the proxy
servers.py    what is started: two such servers, the router, LiteLLM
arms.py       the ways from a client to the server, and how the router is set for each
block.py      a few seconds of requests over one way, sent at their own times
measure.py    rounds of blocks, all ways in turn, kept on disk
added.py      added latency out of these
page.py       the table in docs/router-latency.md
picture.py    the same as a picture
"""
