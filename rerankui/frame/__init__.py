"""What every page stands in: access, navigation, forms, filters, pages of lists, messages about what was done."""
