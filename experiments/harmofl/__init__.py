"""The tables and figures of HarmoFL (Jiang et al., AAAI 2022), in its shape and with its numbers beside ours."""
