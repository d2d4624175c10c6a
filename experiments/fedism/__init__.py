"""The tables and figures of FedISM (Wu et al., IJCAI 2024), in its shape and with its numbers beside ours."""
