"""What the pages of compared runs compute before they are rendered."""
