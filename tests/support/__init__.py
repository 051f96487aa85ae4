"""What several test folders share: waiting, processes, data makers. Holds no tests."""
