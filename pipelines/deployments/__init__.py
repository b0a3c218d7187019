"""What a Prefect server must hold so that the flows run: pools, limits, deployments, automations.

    python -m pipelines.deployments apply

brings a server to that state and says what it changed; a second time it changes nothing.
docs/operations.md explains the parts. kubernetes/, ray/, argo/ and flagger/ hold what other
controllers are given.
"""
