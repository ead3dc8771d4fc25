"""Commands repeated until they are done, here or on other machines: what the lab and the domains run theirs with."""
