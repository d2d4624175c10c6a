"""What the programs on endurance share: :mod:`benchmarks.kill` and :mod:`benchmarks.soak`."""
