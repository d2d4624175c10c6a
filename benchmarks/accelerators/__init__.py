"""Speed on the devices of this machine: the three jobs, beside the numbers recorded on CPU."""
