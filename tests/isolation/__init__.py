"""Several SQL sessions on one database, with their steps in an order the test decides."""
