"""Let a stream count as dead after five seconds without data; loaded through PYTHONPATH.

A list that takes the four minutes of the product would be too long for a test.
"""

from lws import timing

timing.SILENT_STREAM_SECONDS = 5.0
