"""What pages of evaluations compute before they draw: strategies side by side, and which questions got worse."""
