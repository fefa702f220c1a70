"""What makes the documentation: generated pages, the site's hook, and what checks a built site."""
