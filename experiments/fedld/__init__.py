"""The tables and the figure of FedLD (Zeng et al., MICCAI 2024), in its shape and with its numbers beside ours."""
