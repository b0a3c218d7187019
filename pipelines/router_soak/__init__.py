"""`make router-soak`: does the router keep every row and its memory flat under replayed traffic?

backend.py    a candidate that fails now and then
leaving.py    users who go before their reply is whole
sampling.py   the router's memory, threads, files and rows, once a second
accounts.py   what users got, held against what was recorded
soak.py       all of it together, from start to verdict
page.py       the result in docs/router-soak.md
"""
