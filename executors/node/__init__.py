"""What runs on a node: the standard library alone, started as plain files."""
