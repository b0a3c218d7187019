"""A server for tests that puts on the wire what real engines do, faults included.

server.py      an HTTP server on loopback that follows a script, byte by byte
replies.py     scripts: JSON, streams, and every way they go wrong
metrics.py     metrics of each engine
engines.py     what each engine answers, to what it is asked and to questions about itself
proxies.py     what stands between client and engine does to both
"""
