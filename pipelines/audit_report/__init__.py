"""How sharp the audit is, and how often it errs: `python -m pipelines.audit_report`.

settings.py    how much is simulated
models.py      a target and a draft small enough to enumerate
rows.py        replies for the audit
distances.py   total variation of each fault
detection.py   tokens until each fault is found
alarms.py      accusations of an engine that is right
real.py        both on the real model
store.py       what was computed is kept
report.py      the document; picture.py and page.py show it
"""
