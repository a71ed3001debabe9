"""What must hold past one machine, as figures: requests behind a slow store, what is shuffled, what tasks are sent, checks.

`bench/bench_scale.py` is the command; nothing here is imported by lakeidx.
"""
