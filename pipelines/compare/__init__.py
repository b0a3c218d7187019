"""This project's server beside vLLM and llama.cpp: the same requests, plain and speculative.

arms.py     the servers and how each is started
page.py     the table, and its place in docs/engines-compared.md
picture.py  the same as a picture
"""
