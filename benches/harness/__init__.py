"""What the benches share: see benches/README.md."""
