"""The borders, where data comes from files and goes back to them. Each part is imported by name."""
