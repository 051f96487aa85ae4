"""Commands that run a broker or work on its database: serve, db."""
