"""A reply read backwards: from what came out to the stage whose assumption failed.

recorded    what is known of a reply: a row of evidence, or the file of a trace
replay      the same request decoded again, with every step kept
tokens      where each token of the reply came from
steps       what each step did, and why it stopped where it did
rules       which decisions the coins of a trace allow
costs       seconds of a step by stage, beside one of plain decoding
assumptions what has to hold for speculation to pay, and what did
story       all of it as one document
page        the document as a page
"""
