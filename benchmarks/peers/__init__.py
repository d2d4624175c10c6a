"""Side-by-side comparisons with other simulators, each in an environment of its own."""
