"""The stages of a batch as pure map and reduce functions over Arrow, and the artifacts they leave for one another."""
