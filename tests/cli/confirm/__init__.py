"""Tests of `specdecode confirm`, on a tiny model."""
