"""Stages that are looked at again and again: their rows in time order, judged at every look."""
