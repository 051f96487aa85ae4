"""The dashboard in a real browser against a running broker."""
