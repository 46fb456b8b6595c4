"""livegrad against its peers: `python -m benchmarks` and `python -m benchmarks.recording`."""
