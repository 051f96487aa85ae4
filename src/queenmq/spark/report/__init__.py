"""The analytics report: one HTML file that needs nothing else. Pure: rows in, text out."""
