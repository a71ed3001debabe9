"""What a batch costs while its table grows: points, a cost model fitted to them, the page that shows both.

`bench/bench_growth.py` is the command; nothing here is imported by lakeidx.
"""
