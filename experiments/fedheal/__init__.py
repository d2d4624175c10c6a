"""The tables and figures of FedHEAL (Chen et al., CVPR 2024), in its shape and with its numbers beside ours."""
