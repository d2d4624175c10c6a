"""The tables and figures of FedTilt (Zhang et al., arXiv 2503.13537), in its shape and with its numbers beside ours."""
