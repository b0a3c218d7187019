"""Tests of the adapters, most against what a server on loopback really sent."""
