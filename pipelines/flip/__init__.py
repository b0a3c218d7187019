"""The evaluation again with one assumption changed at a time: where does the verdict turn?"""
