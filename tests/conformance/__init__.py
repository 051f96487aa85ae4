"""The wire contract, route by route, against a running broker; the official client as well."""
